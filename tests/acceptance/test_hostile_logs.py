"""Callers without a token cannot fill the broker's log."""

import resource
import socket
import ssl
import struct
from contextlib import suppress

import grpc
import pytest

from bucketq.broker.tokens import new_token
from tests.acceptance.certificates import Authority
from tests.acceptance.hostile import Besieged
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

_, TOKEN = new_token("mailer", ["worker"])
TIMES = 4
# What a broker writes when it starts.
LINES_AT_START = 2


@pytest.fixture(scope="module", params=["plain", "tls"])
def target(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    options = ["--header-within-s", "2", "--idle-s", "3"]
    if request.param == "tls":
        cert, key = Authority(folder).issue("127.0.0.1")
        options += ["--tls-cert", cert, "--tls-key", key]
    with served(f"file://{folder}/queue.json", *options, BUCKETQ_TOKENS=TOKEN.line) as broker:
        target = Besieged(broker)
        target.is_tls = request.param == "tls"
        yield target
        assert not broker.is_gone()
        assert [line["message"] for line in broker.log[LINES_AT_START:]] == []


def connect(target, port=None, alpn=None):
    line = target.connect(port)
    if not target.is_tls:
        return line
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols([alpn])
    return context.wrap_socket(line)


def reset(line):
    """Close in a way that the peer sees as an error."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def upgrade(*headers, path="/v1/ws", version=13):
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    lines = (f"GET {path} HTTP/1.1", "upgrade: websocket", "connection: upgrade", key)
    return "\r\n".join((*lines, f"sec-websocket-version: {version}", *headers, "", "")).encode()


def text(content):
    return b"\x81" + bytes([0x80 | len(content)]) + bytes(4) + content


HOST = "host: 127.0.0.1"
BY_HTTP = {
    "WebSocket of another origin": upgrade(HOST, "origin: https://evil.example"),
    "WebSocket elsewhere": upgrade(HOST, path="/elsewhere"),
    "WebSocket at a path of HTTP": upgrade(HOST, path="/v1/jobs"),
    "WebSocket of the dashboard": upgrade(HOST, path="/dashboard/_nicegui_ws/socket.io/"),
    "WebSocket of an old version": upgrade(HOST, version=8),
    "WebSocket without a key": upgrade(HOST).replace(b"sec-websocket-key", b"x-key"),
    "WebSocket with a false token": upgrade(HOST, "authorization: Bearer bq_wrong") + text(b"{}"),
    "WebSocket with no JSON": upgrade(HOST) + text(b"no JSON"),
    "WebSocket with no UTF-8": upgrade(HOST) + text(b"\xff\xfe"),
    "WebSocket with half a pair": upgrade(HOST) + text(b'{"id":"\\ud800","method":"getStats"}'),
    "WebSocket with an odd id": upgrade(HOST) + text(b'{"id":1e999,"method":"x"}'),
    "WebSocket with no Frame": upgrade(HOST) + text(b"\xff\xfe").replace(b"\x81", b"\x82", 1),
    "WebSocket with no frames": upgrade(HOST) + b"\xff" * 100,
    "WebSocket that ends": upgrade(HOST) + text(b"{}")[:4],
    "another upgrade": b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "no HTTP": b"\x00\xff garbage\r\n\r\n",
    "HTTP/2": PREFACE,
    "half a request": b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\nabc",
    "a wrong length": b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: x\r\n\r\n",
    "a length that is no number in ASCII": b"POST /v1/jobs HTTP/1.1\r\ncontent-length: \xb2\r\n\r\n",
    "two lengths": b"POST /v1/jobs HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "a wrong chunk": b"POST /v1/jobs HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a wrong path": b"GET /%ff%00/\xff HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "a false token": b"GET /v1/stats HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\r\n\r\n",
    "a trace": b"GET /v1/stats HTTP/1.1\r\nhost: x\r\ntraceparent: \xff\r\n\r\n",
    "an origin": b"GET /v1/stats HTTP/1.1\r\nhost: x\r\norigin: \xff\r\n\r\n",
    "an object": b"PUT /v1/objects/%2e%2e/x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    "a method": b"BREW /v1/stats HTTP/1.1\r\nhost: x\r\n\r\n",
    "the dashboard": b"GET /dashboard/sign-in HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", BY_HTTP.values(), ids=BY_HTTP)
def test_what_is_sent_by_http_writes_no_line(target, sent):
    for ends in (socket.socket.close, reset) * (TIMES // 2):
        line = connect(target)
        with suppress(OSError):
            line.sendall(sent)
            if ends is not reset:
                line.settimeout(0.1)
                line.recv(65536)
        ends(line)


def call(path, *headers):
    head = request_headers(path) + b"".join(header(*one) for one in headers)
    return PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, 4, 1, head) + frame(DATA, 1, 1, bytes(5))


BY_GRPC = {
    "no HTTP/2": b"garbage\r\n\r\n",
    "no token": call(b"/bucketq.v1.Queue/Stats"),
    "a false token": call(b"/bucketq.v1.Queue/Stats", (b"authorization", b"Bearer \xff")),
    "a trace": call(b"/bucketq.v1.Queue/Stats", (b"traceparent", b"\xff")),
    "an unknown method": call(b"/bucketq.v1.Queue/Nothing"),
    "an unknown service": call(b"/nothing"),
    "a name that is not UTF-8": call(b"/bucketq.v1.Queue/\xff"),
    "compressed": call(b"/bucketq.v1.Queue/Stats", (b"grpc-encoding", b"gzip")),
    "an unknown encoding": call(b"/bucketq.v1.Queue/Stats", (b"grpc-encoding", b"xz")),
    "a wrong timeout": call(b"/bucketq.v1.Queue/Stats", (b"grpc-timeout", b"never")),
    "no message": call(b"/grpc.health.v1.Health/Check")[:-14],
    "health of nothing": call(b"/grpc.health.v1.Health/Watch"),
    "wrong health": call(b"/grpc.health.v1.Health/Check")[:-5] + b"\x00\x00\x00\x00\x01",
    "reflection": call(b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
}


@pytest.mark.parametrize("sent", BY_GRPC.values(), ids=BY_GRPC)
def test_what_is_sent_by_grpc_writes_no_line(target, sent):
    for ends in (socket.socket.close, reset) * (TIMES // 2):
        line = connect(target, target.grpc_port, "h2")
        with suppress(OSError):
            line.sendall(sent)
            if ends is not reset:
                line.settimeout(0.1)
                line.recv(65536)
        ends(line)


@pytest.mark.parametrize("port", ["http_port", "grpc_port"])
@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05garbage", b"\x16", b""])
def test_handshakes_of_tls_that_fail_write_no_line(target, port, sent):
    for ends in (socket.socket.close, reset) * (TIMES // 2):
        line = target.connect(getattr(target, port))
        with suppress(OSError):
            line.sendall(sent)
            if ends is not reset:
                line.settimeout(0.1)
                line.recv(65536)
        ends(line)


def test_metadata_that_is_too_large_writes_no_line(target):
    if target.is_tls:
        ca = ssl.get_server_certificate(("127.0.0.1", target.grpc_port)).encode()
        channel = grpc.secure_channel(f"127.0.0.1:{target.grpc_port}", grpc.ssl_channel_credentials(ca))
    else:
        channel = grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}")
    with channel:
        for _ in range(TIMES):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary("/bucketq.v1.Queue/Stats")(
                    b"", metadata=[("a", "b" * 100_000)], timeout=20
                )


def test_descriptors_that_run_out_write_few_lines(tmp_path):
    """A limit of connections that the process cannot have is a mistake, and still fills no log."""
    with served(
        f"file://{tmp_path}/queue.json", "--connections-max", "100000", BUCKETQ_TOKENS=TOKEN.line
    ) as broker:
        target = Besieged(broker)
        files = target.open_files
        limit(target.pid, files + 20)
        lines = []
        try:
            for _ in range(300):
                with suppress(OSError):
                    lines.append(target.connect(timeout_s=0.2))
            target.wait_until(lambda: target.open_files >= files + 19)
        finally:
            for line in lines:
                line.close()
        limit(target.pid, 1000)
        target.wait_until(
            lambda: target.talk(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").status == 200
        )
        assert len(broker.log) < 30


def limit(pid, files):
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
