"""A proxy in front of a storage server, which answers in its place or loses its answers."""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    """A request that has reached the proxy."""

    method: str
    path: str
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """An error that the proxy gives instead of passing the request on."""

    status: int
    code: str


class Loss(Enum):
    """How an answer is lost, after the server has done what was asked."""

    RESET = auto()
    CLOSED = auto()
    SILENCE = auto()
    HALF = auto()


class FaultProxy(ThreadingHTTPServer):
    """Passes requests on to `upstream`, but for the fault that `fault` says."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = urlsplit(upstream)
        self.endpoint_url = f"http://127.0.0.1:{self.server_port}{self.upstream.path}"
        self.fault: Answer | Loss | None = None
        # Only requests go wrong whose method and path hold this.
        self.fault_at = ""
        # How long contents are held up halfway, in both directions.
        self.pause_s = 0.0
        self.requests: list[Request] = []
        self.answered_bytes = 0
        self.landed = threading.Event()
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: FaultProxy
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        # A client that has given up is no news here.
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def do_PUT(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.command, unquote(self.path), headers))
        size_bytes = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size_bytes // 2)
        if size_bytes:
            self.server.closing.wait(self.server.pause_s)
        body += self.rfile.read(size_bytes - len(body))
        is_struck = self.server.fault_at in f"{self.command} {unquote(self.path)}"
        fault = self.server.fault if is_struck else None
        if isinstance(fault, Answer):
            self._answer(fault.status, [], f"<Error><Code>{fault.code}</Code></Error>".encode())
            return
        status, headers, content = self._pass_on(body)
        if fault is None:
            self._answer(status, headers, content)
        else:
            self.server.landed.set()
            if fault is Loss.HALF:
                self._answer(status, headers, content, sent=content[: len(content) // 2])
            self._lose(fault)

    def do_GET(self) -> None:
        self.do_PUT()

    def do_HEAD(self) -> None:
        self.do_PUT()

    def do_POST(self) -> None:
        self.do_PUT()

    def do_DELETE(self) -> None:
        self.do_PUT()

    def log_message(self, *args: object) -> None:
        pass

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection(self.server.upstream.netloc, timeout=30)
        with contextlib.closing(server):
            # The Host header too: it is part of what was signed.
            server.request(self.command, self.path, body, dict(self.headers))
            answer = server.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, sent: bytes | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "content-length", "keep-alive", "transfer-encoding"):
                self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            sent = content if sent is None else sent
            self.wfile.write(sent[: len(sent) // 2])
            if sent:
                self.wfile.flush()
                self.server.closing.wait(self.server.pause_s)
            self.wfile.write(sent[len(sent) // 2 :])
            self.server.answered_bytes += len(content)
        self.wfile.flush()

    def _lose(self, loss: Loss) -> None:
        self.close_connection = True
        if loss is Loss.SILENCE:
            self.server.closing.wait()
        elif loss is Loss.RESET:
            # A linger time of zero turns the close into a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@contextlib.contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """A running proxy in front of the server at this address."""
    with FaultProxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.closing.set()
            proxy.shutdown()
            thread.join()
