"""Those who speak HTTP badly, slowly, or too much get an error, and nobody else notices."""

import json
import random

import pytest

from tests.acceptance.hostile import MB, Answer, besieged

SHORT = ("--header-within-s", "0.5", "--body-within-s", "0.5", "--idle-s", "2")
POST = b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"

# What is sent, and the status of the answer; None: the connection is closed without one.
MISSPOKEN = {
    "garbage": (b"\x00\xff\x01garbage\r\n\r\n", 400),
    "the start of TLS": (bytes.fromhex("16030100c8010000c40303") + b"a" * 100, 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a version of the future": (b"GET / HTTP/9.9\r\n\r\n", 400),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\n\r\n", 400),
    "bytes in the path": (b"GET /\xff\xfe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", 400),
    "a length and chunks": (
        POST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunks and a length": (
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a blank before the colon": (POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "an unknown encoding": (POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "a bare line feed": (POST + b"a: b\nc: d\r\n\r\n", 400),
    "a negative length": (POST + b"content-length: -1\r\n\r\n", 400),
    "a length of 28 digits": (POST + b"content-length: " + b"9" * 28 + b"\r\n\r\n", 400),
    "chunks that are none": (POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
    "a huge length": (POST + b"content-length: 99999999999999\r\n\r\n" + b"x" * 1000, 413),
    "many headers": (GET + b"".join(b"a%d: b\r\n" % n for n in range(5000)) + b"\r\n", 431),
    "many trailers": (
        POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
        431,
    ),
    "a long header": (GET + b"a: " + b"b" * 100_000 + b"\r\n\r\n", 431),
    "a header without end": (GET + b"a: " + b"b" * 100_000, 431),
    "a URL without end": (b"GET /" + b"a" * 200_000, 431),
    "half a header": (b"POST /v1/jobs HT", 408),
    "half a body": (POST + b"content-length: 100\r\n\r\n{", 408),
    "half a chunk": (POST + b"transfer-encoding: chunked\r\n\r\nff\r\n{", 408),
    "a chunk's extension without end": (POST + b"transfer-encoding: chunked\r\n\r\n2;" + b"a" * 90_000, 408),
    "a flood of requests": (b"GET /healthz HTTP/1.1\r\n\r\n" * 20_000, None),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    with besieged(tmp_path_factory.mktemp("besieged"), *SHORT) as target:
        yield target


@pytest.mark.parametrize("case", MISSPOKEN)
def test_what_is_no_request_is_refused(target, case):
    sent, status = MISSPOKEN[case]
    answer = target.talk(sent)
    assert answer.status == status
    if status is not None:
        assert set(json.loads(answer.body)) == {"_tag", "message"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"payload": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b"[" * 100_000,
        b'{"payload": ' + b"9" * 100_000 + b"}",
        b'{"payload": 1, "priority": ' + b"9" * 100_000 + b"}",
        b'{"payload": 1, "priority": 1e400}',
        b"{" + b",".join(b'"k%d": 1' % n for n in range(100_000)) + b"}",
        b'{"payload": "\xff\xfe"}',
        b"\x00" * 1000,
    ],
    ids=[
        "nested lists",
        "nested objects",
        "open lists",
        "digits",
        "more digits",
        "infinity",
        "keys",
        "no UTF-8",
        "zeros",
    ],
)
def test_json_that_is_too_much_is_refused(target, body):
    answer = target.talk(POST + b"content-length: %d\r\n\r\n" % len(body) + body)
    assert answer.status == 400
    assert answer.tag in ("BrokerProtocolError", "ConfigurationError", "PayloadError")


def test_a_body_without_end_is_cut_off(tmp_path):
    options = ("--message-bytes-max", str(MB))
    with besieged(tmp_path, *options) as target, target.connect() as line:
        line.sendall(POST + b"transfer-encoding: chunked\r\n\r\n")
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 10_000 * MB:
                line.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        assert target.talk(POST + b"content-length: %d\r\n\r\n" % (2 * MB)).tag == "TooLargeError"


def test_pipelined_requests_are_answered_in_order(target):
    with target.connect() as line:
        line.sendall(GET + b"\r\n" + POST + b"content-length: 2\r\n\r\n{}")
        stream = line.makefile("rb")
        told = b""
        while b"jobId" not in told:
            told += stream.read1()
        assert told.count(b"HTTP/1.1 200") == 2


def test_a_connection_that_is_not_used_is_closed(target):
    with target.connect() as fresh, target.connect() as used:
        used.sendall(GET + b"\r\n")
        assert Answer.read(used).status == 200
        assert fresh.recv(1) == used.recv(1) == b""


def test_many_slow_senders_hold_nobody_up(target):
    lines = [target.connect() for _ in range(300)]
    for number, line in enumerate(lines):
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost" if number % 2 else POST + b"content-length: 9\r\n\r\n")
    for line in lines:
        with line:
            assert Answer.read(line).status == 408


def test_a_sender_that_drips_is_not_kept(tmp_path):
    with besieged(tmp_path, *SHORT) as target, target.connect() as line:
        line.sendall(POST + b"content-length: 1000000\r\n\r\n")
        line.settimeout(0.05)
        came = b""
        while not came:
            try:
                line.sendall(b"x")
                came = line.recv(1000)
            except TimeoutError:
                continue
        assert b" 408 " in came


def test_a_reader_that_does_not_read_is_cut_off(tmp_path):
    with besieged(tmp_path, *SHORT, bytes_max=64 * MB) as target:
        body = b'{"payload": "%s", "type": "large"}' % (b"x" * 8 * MB)
        assert target.talk(POST + b"content-length: %d\r\n\r\n" % len(body) + body).status == 200
        before = target.sockets
        claim = b'{"workerId": "w", "types": ["large"]}'
        with target.connect() as line:
            line.sendall(
                POST.replace(b"/jobs", b"/jobs/claim") + b"content-length: %d\r\n\r\n" % len(claim) + claim
            )
            target.wait_until(lambda: target.sockets - before)
            mine = target.sockets - before
            target.wait_until(lambda: not target.sockets & mine)


def test_at_the_limit_the_longest_idle_connection_gives_way(tmp_path):
    # The bystander is never the longest idle.
    with besieged(tmp_path, "--connections-max", "20", rest_s=0) as target:
        lines = [target.connect() for _ in range(40)]
        try:
            lines[-1].sendall(GET + b"\r\n")
            assert Answer.read(lines[-1]).status == 200
            assert lines[0].recv(1) == b""
        finally:
            for line in lines:
                line.close()


def test_a_fuzz_of_requests(tmp_path):
    chance = random.Random(11)
    parts = [sent for sent, _ in MISSPOKEN.values() if len(sent) < 1000] + [GET + b"\r\n", POST]
    with besieged(tmp_path, *SHORT) as target:
        for _ in range(300):
            sent = bytearray(b"".join(chance.choices(parts, k=chance.randint(1, 3))))
            for _ in range(chance.randint(0, 8)):
                sent[chance.randrange(len(sent))] = chance.randrange(256)
            with target.connect() as line:
                line.sendall(sent[: chance.randint(1, len(sent))])
                if chance.random() < 0.1:
                    Answer.read(line)
