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
def guarded(folder, *options, bytes_max=64 * MB):
    """A broker with a token; afterwards it still leads, serves, and has stayed within its memory."""
    with served(f"file://{folder}/queue.json", *options, BUCKETQ_TOKENS=TOKEN.line) as broker:
        target = Besieged(broker)
        before_bytes = target.memory_bytes
        target.forget_peak()
        yield target
        leader = pb.LeaderResponse.FromString(answered(target))
        assert (leader.is_me, leader.epoch) == (True, 1)
        grown_bytes = target.peak_bytes - before_bytes
        assert grown_bytes < bytes_max, f"{grown_bytes / MB:.0f} MB more at the peak"
        assert [line for line in broker.log if is_worrying(line)] == []


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


def grpc_channel(target, **options):
    unlimited = [("grpc.max_send_message_length", -1)]
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


@pytest.mark.parametrize("path", [f"{QUEUE}Enqueue", f"{QUEUE}Batch", f"{QUEUE}CreateObject", CHECK, REFLECT])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_messages_are_not_expanded(tmp_path, path, encoding):
    bomb = (gzip.compress if encoding == "gzip" else zlib.compress)(bytes(3 * MB))
    content = prefixed(bomb, is_compressed=True)
    assert len(content) < 4000, "it fits into the window of a stream, so it arrives"
    with guarded(tmp_path) as target:
        at_once(lambda: flood(target, path, content, 500, (b"grpc-encoding", encoding.encode())), 4)


def test_compressed_calls_are_refused(tmp_path):
    with guarded(tmp_path) as target, grpc_channel(target, compression=grpc.Compression.Gzip) as channel:
        for metadata in (None, METADATA):
            enqueue = channel.unary_unary(f"{QUEUE}Enqueue")
            assert code_of(enqueue, ENQUEUE, metadata=metadata) is grpc.StatusCode.UNIMPLEMENTED


OWN = [f"{QUEUE}{method}" for method in ("Enqueue", "Batch", "Leader", "ReadObject", "CreateObject")]


@pytest.mark.parametrize("path", [*OWN, REFLECT])
def test_large_messages_by_grpc_are_not_read(tmp_path, path):
    content = bytes(32 * MB)
    with guarded(tmp_path, bytes_max=48 * MB) as target, grpc_channel(target) as channel:
        call = channel.unary_stream(path)
        codes = at_once(lambda: code_of(call, content), 60)
    assert {*codes} == {grpc.StatusCode.UNAUTHENTICATED}


@pytest.mark.parametrize("path", [CHECK, WATCH])
def test_large_messages_about_the_health_are_read_one_at_a_time(tmp_path, path):
    content = bytes(30 * MB)
    # gRPC holds one message almost four times while it hands it over, and a part of those that gave way.
    limit = ("--message-bytes-max", str(32 * MB))
    with guarded(tmp_path, *limit, bytes_max=192 * MB) as target, grpc_channel(target) as channel:
        codes = at_once(lambda: code_of(channel.unary_stream(path), content), 60)
        assert {*codes} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert code_of(channel.unary_unary(CHECK), b"") == b"\x08\x01"


def test_the_health_is_told_beside_callers_whose_message_does_not_come(tmp_path):
    half = frame(DATA, 0, 1, struct.pack(">BI", 0, 60 * MB))
    with guarded(tmp_path) as target, grpc_channel(target) as channel, ExitStack() as stack:
        for _ in range(20):
            line = stack.enter_context(target.connect(target.grpc_port))
            head = frame(HEADERS, 4, 1, request_headers(CHECK.encode()))
            line.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + head + half)
            line.recv(1)
        check = channel.unary_unary(CHECK)
        checks = [check.future(b"", timeout=60) for _ in range(50)]
        assert {one.result() for one in checks} == {b"\x08\x01"}


@pytest.mark.parametrize("path", [f"{QUEUE}Enqueue", f"{QUEUE}Unknown", CHECK, WATCH, REFLECT])
def test_half_sent_messages_by_grpc_are_not_kept(tmp_path, path):
    half = struct.pack(">BI", 0, 60 * MB) + bytes(4000)
    with guarded(tmp_path, bytes_max=160 * MB) as target:
        at_once(lambda: flood(target, path, half, 3000, flags=0), 10)


def test_watching_the_health_is_bounded(tmp_path):
    with guarded(tmp_path) as target, grpc_channel(target) as channel:
        watches = []
        for _ in range(300):
            watches.append(channel.unary_stream(WATCH)(b""))
            assert next(watches[-1]) == b"\x08\x01"
        assert {watch.code() for watch in watches[:-100]} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert all(watch.is_active() for watch in watches[-100:])
        for watch in watches:
            watch.cancel()


def request(path, *headers, length):
    lines = (f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {length}", *headers)
    return "\r\n".join((*lines, "", "")).encode()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_large_and_compressed_bodies_by_http_are_not_read(tmp_path, encoding):
    body = gzip.compress(bytes(64 * MB)) if encoding == "gzip" else zlib.compress(bytes(64 * MB))
    body = bytes(32 * MB) if encoding == "identity" else body
    head = request("/v1/jobs", f"content-encoding: {encoding}", length=len(body))
    with guarded(tmp_path, bytes_max=32 * MB) as target:
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
def test_large_messages_by_websocket_are_not_kept(tmp_path, first_byte):
    content = bytes(8 * MB)
    head = bytes([first_byte, 0xFF]) + struct.pack(">Q", len(content)) + bytes(4)

    def attack():
        with handshake(target) as line, suppress(OSError):
            for _ in range(4):
                line.sendall(head + content)
            read_all(line)

    with guarded(tmp_path, bytes_max=32 * MB) as target:
        at_once(attack, 60)


def test_calls_by_websocket_before_the_token_are_not_kept(tmp_path):
    call = b'{"id": 1, "method": "getStats", "params": {"a": "%s"}}' % (b"x" * 10_000)
    message = b"\x81\xfe" + struct.pack(">H", len(call)) + bytes(4) + call

    def attack():
        # Nothing is read from the answers.
        with handshake(target) as line, suppress(OSError):
            line.settimeout(5)
            for _ in range(2000):
                line.sendall(message)

    with guarded(tmp_path, bytes_max=48 * MB) as target:
        at_once(attack, 40)


def test_tls_handshakes_under_way_are_bounded(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with ExitStack() as stack:
            tls = ("--tls-cert", cert, "--tls-key", key)
            broker = stack.enter_context(
                served(f"file://{tmp_path}/queue.json", *tls, BUCKETQ_TOKENS=TOKEN.line)
            )
            target = Besieged(broker)
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
