"""Those who speak gRPC badly get an error, or no answer, and nobody else notices."""

import json
import random
import struct
from contextlib import suppress

import grpc
import pytest

from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.hostile import MB, Besieged, besieged, is_worrying
from tests.acceptance.served import served

SHORT = ("--header-within-s", "1", "--idle-s", "3")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
NESTED = b"[" * 100_000 + b"]" * 100_000
# Short enough to stand in queue.json itself.
INLINE = b"[" * 30_000 + b"]" * 30_000
METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["Queue"].methods]
# What a caller can be told. UNKNOWN would be an error that nobody has thought of.
TOLD = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    with besieged(tmp_path_factory.mktemp("besieged"), *SHORT, bytes_max=64 * MB) as target:
        yield target


@pytest.fixture
def channel(target):
    with grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
        yield channel


def call(channel, method, content, timeout_s=20):
    """Call a method with bytes; return the answer's, or the status that it was refused with."""
    try:
        return channel.unary_unary(f"/bucketq.v1.Queue/{method}")(content, timeout=timeout_s)
    except grpc.RpcError as error:
        return error.code()


def frame(kind, flags, stream, content):
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def header(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers(path=b"/bucketq.v1.Queue/Stats"):
    names = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b":authority": b"b",
        b"te": b"trailers",
    }
    return b"".join(header(*one) for one in names.items()) + header(b"content-type", b"application/grpc")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 1000,
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + b"a" * 100,
        PREFACE[:10],
        PREFACE,
        PREFACE + frame(SETTINGS, 0, 0, b"")[:5],
        PREFACE + frame(DATA, 0, 0, b"x" * 100),
        b"",
    ],
    ids=[
        "zeros",
        "HTTP/1.1",
        "TLS",
        "half a preface",
        "only a preface",
        "half a frame",
        "data first",
        "nothing",
    ],
)
def test_what_is_no_http2_is_cut_off(target, sent):
    with target.connect(target.grpc_port) as line:
        line.sendall(sent)
        with suppress(ConnectionResetError):
            while line.recv(65536):
                pass


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, b"12345678") * 5000,
        frame(SETTINGS, 0, 0, b"\x00\x03\x00\x00\x00\x64") * 5000,
        frame(HEADERS, 4, 1, request_headers()) + frame(CONTINUATION, 0, 1, b"x" * 100) * 5000,
        frame(HEADERS, 0, 1, request_headers()) + frame(CONTINUATION, 0, 1, header(b"a", b"b" * 100)) * 5000,
        b"".join(
            frame(HEADERS, 4, number, request_headers()) + frame(RST_STREAM, 0, number, b"\x00\x00\x00\x08")
            for number in range(1, 10_000, 2)
        ),
        b"".join(frame(HEADERS, 4, number, request_headers()) for number in range(1, 10_000, 2)),
    ],
    ids=["pings", "settings", "lost continuations", "headers without end", "rapid resets", "streams"],
)
def test_a_flood_of_frames_drowns_nobody(target, flood):
    with target.connect(target.grpc_port) as line, suppress(ConnectionError):
        line.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + flood)


def test_a_fuzz_of_frames(target):
    chance = random.Random(11)
    for _ in range(200):
        sent = bytearray(PREFACE + frame(SETTINGS, 0, 0, b""))
        for _ in range(chance.randint(1, 10)):
            stream = chance.choice((0, 1, 3, 2**31 - 1))
            if chance.random() < 0.3:
                broken = bytearray(frame(HEADERS, chance.choice((0, 1, 4, 5)), stream, request_headers()))
            else:
                kind, content = chance.randint(0, 12), chance.randbytes(chance.randint(0, 200))
                broken = bytearray(frame(kind, chance.randrange(256), stream, content))
            for _ in range(chance.randint(0, 3)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            sent += broken
        with target.connect(target.grpc_port) as line:
            line.sendall(sent)
    with grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
        # While gRPC sheds load it cancels calls.
        target.wait_until(lambda: isinstance(call(channel, "Stats", b""), bytes))


def test_a_method_name_that_is_not_utf8_leaves_the_broker_serving(target, channel):
    # A library that fails at such a name does not crash each time, so one request is not enough.
    for number in range(100):
        name = b"/bucketq.v1.Queue/" + bytes([0x80 + number]) + b"Stats"
        with target.connect(target.grpc_port) as line:
            request = frame(HEADERS, 4, 1, request_headers(name)) + frame(DATA, 1, 1, bytes(5))
            line.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + request)
            until_headers(line)
        assert not target.broker.is_gone()
        assert isinstance(call(channel, "Stats", b""), bytes)


def until_headers(line):
    """Read frames until the answer's first headers; fail if the connection ends before."""
    content = b""
    while True:
        while len(content) >= 9 and len(content) >= 9 + (size := int.from_bytes(content[:3], "big")):
            if content[3] == HEADERS:
                return
            content = content[9 + size :]
        received = line.recv(65536)
        assert received, "the server closed the connection without an answer"
        content += received


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A channel to a broker without a bystander, whose jobs a random call may claim."""
    folder = tmp_path_factory.mktemp("alone")
    with served(f"file://{folder}/queue.json") as broker:
        target = Besieged(broker)
        with grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
            yield channel
            assert isinstance(call(channel, "Stats", b""), bytes)
        assert [line for line in broker.log if is_worrying(line)] == []


@pytest.mark.parametrize("method", METHODS)
def test_a_fuzz_of_messages(alone, method):
    chance = random.Random(method)
    seeds = [
        pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="fuzz", payload=b"{}")]).SerializeToString(),
        pb.AckRequest(claim=pb.Claim(job_id="1", token="t"), result=b"{}").SerializeToString(),
        pb.BatchRequest(
            session="s", number=1, operations=[pb.Operation(ack=pb.AckRequest())] * 3
        ).SerializeToString(),
        b"",
    ]
    for _ in range(40):
        sent = bytearray(chance.choice(seeds)) + chance.randbytes(chance.choice((0, 0, 1, 50)))
        for _ in range(chance.randint(0, 6)):
            if sent:
                sent[chance.randrange(len(sent))] = chance.randrange(256)
        answer = call(alone, method, bytes(sent), timeout_s=2)
        assert isinstance(answer, bytes) or answer in TOLD, (bytes(sent), answer)


def test_a_message_that_is_too_large_is_refused(tmp_path):
    with (
        besieged(tmp_path, "--message-bytes-max", str(MB), bytes_max=64 * MB) as target,
        grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel,
    ):
        for _ in range(5):
            assert call(channel, "Batch", b"x" * 15 * MB) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert isinstance(call(channel, "Stats", b""), bytes)


def test_metadata_that_is_too_large_is_refused(channel):
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/bucketq.v1.Queue/Stats")(b"", metadata=[("a", "b" * 100_000)], timeout=20)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_payload_that_is_nested_deeply_goes_through(target, channel):
    job = pb.NewJob(entrypoint="nested", payload=INLINE)
    assert isinstance(call(channel, "Enqueue", pb.EnqueueRequest(jobs=[job]).SerializeToString()), bytes)
    claimed = pb.Jobs.FromString(
        call(channel, "Dequeue", pb.DequeueRequest(entrypoints=["nested"]).SerializeToString())
    )
    assert claimed.jobs[0].payload == INLINE
    claim = pb.Claim(job_id=claimed.jobs[0].id, token=claimed.jobs[0].token)
    wrong = pb.AckRequest(claim=claim, result=NESTED).SerializeToString()
    assert call(channel, "Ack", wrong) is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(call(channel, "Ack", pb.AckRequest(claim=claim).SerializeToString()), bytes)
    body = b'{"payload": %s, "payloadEncoding": "base64", "type": "nested"}' % json.dumps("W1td").encode()
    head = b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert target.talk(head + body).status == 200
