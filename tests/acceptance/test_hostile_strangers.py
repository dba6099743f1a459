"""What callers without a token send does not fill the broker's memory, and does not cost it the lead."""

import gzip
import re
import resource
import socket
import ssl
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import grpc
import httpx
import pytest

from bucketq.broker.tokens import new_token
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.certificates import Authority
from tests.acceptance.hostile import MB, Besieged, is_worrying
from tests.acceptance.served import served
from tests.acceptance.test_hostile_grpc import (
    DATA,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    header,
    request_headers,
)

SECRET, TOKEN = new_token("mailer", ["producer", "worker"])
BEARER = f"Bearer {SECRET}"
METADATA = [("authorization", BEARER)]
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
QUEUE = "/bucketq.v1.Queue/"
ENQUEUE = pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="mail")]).SerializeToString()


@contextmanager
def guarded(folder, *options):
    """A broker with a token."""
    with served(f"file://{folder}/queue.json", *options, BUCKETQ_TOKENS=TOKEN.line) as broker:
        target = Besieged(broker)
        yield target


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as target:
        yield target


@contextmanager
def bounded(target, bytes_max=64 * MB):
    """Afterwards it still leads, serves, and has stayed within its memory."""
    before_bytes = target.memory_bytes
    target.forget_peak()
    yield target
    leader = pb.LeaderResponse.FromString(answered(target))
    assert (leader.is_me, leader.epoch) == (True, 1)
    grown_bytes = target.peak_bytes - before_bytes
    assert grown_bytes < bytes_max, f"{grown_bytes / MB:.0f} MB more at the peak"
    assert [line for line in target.broker.log if is_worrying(line)] == []


def answered(target):
    """The answer to a call with a token. While gRPC sheds load it cancels calls, so they are repeated."""
    answers = []
    with grpc_channel(target) as channel:
        leader = channel.unary_unary(f"{QUEUE}Leader")
        target.wait_until(
            lambda: answers.append(code_of(leader, b"", metadata=METADATA)) or is_answer(answers)
        )
    return answers[-1]


def is_answer(answers):
    return isinstance(answers[-1], bytes)


def grpc_channel(target, own=0, **options):
    """A channel; those with different numbers have connections of their own."""
    unlimited = [("grpc.max_send_message_length", -1), ("bucketq.own", own)]
    return grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}", unlimited, **options)


def at_once(attack, times, threads=20):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda _: attack(), range(times)))


def code_of(call, *arguments, **options):
    try:
        answer = call(*arguments, timeout=60, **options)
        return list(answer) if not isinstance(answer, bytes) else answer
    except grpc.RpcError as error:
        return error.code()


def prefixed(content, *, is_compressed=False):
    return struct.pack(">BI", is_compressed, len(content)) + content


def flood(target, path, content, streams, *headers, flags=1):
    """Open streams on one connection, each with some content, and read what comes back."""
    head = request_headers(path.encode()) + b"".join(header(*one) for one in headers)
    with target.connect(target.grpc_port) as line, suppress(OSError):
        reading = threading.Thread(target=read_all, args=[line])
        reading.start()
        line.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        for number in range(1, 2 * streams, 2):
            line.sendall(frame(HEADERS, 4, number, head) + frame(DATA, flags, number, content))
        line.shutdown(socket.SHUT_WR)
        reading.join()


def read_all(line):
    with suppress(OSError):
        while line.recv(1 << 16):
            pass


@pytest.mark.parametrize(
    ("path", "encoding"),
    [
        (f"{QUEUE}Enqueue", "gzip"),
        (f"{QUEUE}Enqueue", "deflate"),
        (f"{QUEUE}CreateObject", "gzip"),
        (CHECK, "gzip"),
        (REFLECT, "gzip"),
    ],
)
def test_compressed_messages_are_not_expanded(target, path, encoding):
    bomb = (gzip.compress if encoding == "gzip" else zlib.compress)(bytes(3 * MB))
    content = prefixed(bomb, is_compressed=True)
    assert len(content) < 4000, "it fits into the window of a stream, so it arrives"
    with bounded(target):
        at_once(lambda: flood(target, path, content, 500, (b"grpc-encoding", encoding.encode())), 4)


def test_compressed_calls_are_refused(target):
    with bounded(target), grpc_channel(target, compression=grpc.Compression.Gzip) as channel:
        for metadata in (None, METADATA):
            enqueue = channel.unary_unary(f"{QUEUE}Enqueue")
            assert code_of(enqueue, ENQUEUE, metadata=metadata) is grpc.StatusCode.UNIMPLEMENTED


# A call with one answer, one with many, and one with many messages.
OWN = [f"{QUEUE}{method}" for method in ("Enqueue", "ReadObject", "CreateObject")]


@pytest.mark.parametrize("path", [*OWN, REFLECT])
def test_large_messages_by_grpc_are_not_read(target, path):
    content = bytes(32 * MB)
    with bounded(target, 48 * MB), grpc_channel(target) as channel:
        call = channel.unary_stream(path)
        codes = at_once(lambda: code_of(call, content), 60)
    assert {*codes} == {grpc.StatusCode.UNAUTHENTICATED}


@pytest.mark.parametrize("path", [CHECK, WATCH])
def test_large_messages_about_the_health_are_not_read(target, path):
    content = bytes(30 * MB)
    with bounded(target), grpc_channel(target) as channel:
        told = at_once(lambda: first_of(channel.unary_stream(path), content), 20)
        # A connection may watch ten times at once.
        assert b"\x08\x01" in told
        assert {*told} <= {b"\x08\x01", *([grpc.StatusCode.RESOURCE_EXHAUSTED] if path == WATCH else [])}


def first_of(call, content):
    """The first answer to a call, or the status that it was refused with."""
    answers = call(content, timeout=60)
    try:
        return next(answers)
    except grpc.RpcError as error:
        return error.code()
    finally:
        answers.cancel()


def test_the_health_is_told_beside_callers_whose_message_does_not_come(target):
    half = frame(DATA, 0, 1, struct.pack(">BI", 0, 60 * MB))
    with bounded(target), grpc_channel(target) as channel, ExitStack() as stack:
        for _ in range(20):
            line = stack.enter_context(target.connect(target.grpc_port))
            head = frame(HEADERS, 4, 1, request_headers(CHECK.encode()))
            line.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + head + half)
            line.recv(1)
        check = channel.unary_unary(CHECK)
        checks = [check.future(b"", timeout=60) for _ in range(50)]
        assert {one.result() for one in checks} == {b"\x08\x01"}


@pytest.mark.parametrize("path", [f"{QUEUE}Enqueue", f"{QUEUE}Unknown", CHECK, WATCH, REFLECT])
def test_half_sent_messages_by_grpc_are_not_kept(target, path):
    half = struct.pack(">BI", 0, 60 * MB) + bytes(4000)
    with bounded(target, 160 * MB):
        at_once(lambda: flood(target, path, half, 3000, flags=0), 10)


def test_watching_the_health_is_bounded(target):
    with bounded(target), ExitStack() as stack:
        channels = [stack.enter_context(grpc_channel(target, own=number)) for number in range(2)]
        watches = [channels[0].unary_stream(WATCH)(b"") for _ in range(10)]
        assert {next(watch) for watch in watches} == {b"\x08\x01"}
        assert first_of(channels[0].unary_stream(WATCH), b"") is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert first_of(channels[1].unary_stream(WATCH), b"") == b"\x08\x01", "that leaves places to others"
        assert all(watch.is_active() for watch in watches)
        for watch in watches:
            watch.cancel()


def request(path, *headers, length):
    lines = (f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {length}", *headers)
    return "\r\n".join((*lines, "", "")).encode()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_large_and_compressed_bodies_by_http_are_not_read(target, encoding):
    body = gzip.compress(bytes(64 * MB)) if encoding == "gzip" else zlib.compress(bytes(64 * MB))
    body = bytes(32 * MB) if encoding == "identity" else body
    head = request("/v1/jobs", f"content-encoding: {encoding}", length=len(body))
    with bounded(target, 32 * MB):
        answers = at_once(lambda: target.talk(head, body).status, 40)
        assert {*answers} <= {401, None}, "None: the connection was closed while the body was still sent"
        # Nor is it expanded for a caller with a token.
        if encoding != "identity":
            head = request(
                "/v1/jobs", f"authorization: {BEARER}", f"content-encoding: {encoding}", length=len(body)
            )
            assert target.talk(head, body).status == 400


def handshake(target):
    line = target.connect()
    offered = "sec-websocket-extensions: permessage-deflate"
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    lines = ("GET /v1/ws HTTP/1.1", "host: 127.0.0.1", "upgrade: websocket", "connection: upgrade", key)
    line.sendall("\r\n".join((*lines, "sec-websocket-version: 13", offered, "", "")).encode())
    answer = line.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"extensions" not in answer.lower(), "compression is not agreed on"
    return line


@pytest.mark.parametrize("first_byte", [0x82, 0xC2, 0x02], ids=["large", "compressed", "fragments"])
def test_large_messages_by_websocket_are_not_kept(target, first_byte):
    content = bytes(8 * MB)
    head = bytes([first_byte, 0xFF]) + struct.pack(">Q", len(content)) + bytes(4)

    def attack():
        with handshake(target) as line, suppress(OSError):
            for _ in range(4):
                line.sendall(head + content)
            read_all(line)

    with bounded(target, 32 * MB):
        at_once(attack, 60)


def test_calls_by_websocket_before_the_token_are_not_kept(target):
    call = b'{"id": 1, "method": "getStats", "params": {"a": "%s"}}' % (b"x" * 10_000)
    message = b"\x81\xfe" + struct.pack(">H", len(call)) + bytes(4) + call

    def attack():
        # Nothing is read from the answers.
        with handshake(target) as line, suppress(OSError):
            line.settimeout(2)
            for _ in range(2000):
                line.sendall(message)

    with bounded(target, 48 * MB):
        at_once(attack, 40)


def test_tls_handshakes_under_way_are_bounded(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        # Whoever is silent for 3 s is out; all that are let in at a time are there before.
        options = ("--tls-cert", cert, "--tls-key", key, "--header-within-s", "3")
        with guarded(tmp_path, *options) as target, ExitStack() as stack:
            before_bytes = target.memory_bytes
            target.forget_peak()
            for _ in range(1500):
                stack.enter_context(target.connect())
            trusted = ssl.create_default_context(cafile=authority.path)
            address = re.search(r"https://\S+", target.told)[0]
            assert httpx.get(f"{address}/readyz", verify=trusted, timeout=60).json() == {"status": "leading"}
            assert target.peak_bytes - before_bytes < 250 * MB
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
