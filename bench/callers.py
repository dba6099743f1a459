"""Callers of an HTTP server, in a process of their own: as many connections as callers, always busy.

    python -m bench.callers 8420 enqueue 100 20000      port, errand, callers, errands of all of them

Prints how many seconds they took. The client must cost less than the server that is measured, so
it does no more than sockets need: no event loop, no HTTP library.
"""

import json
import selectors
import socket
import sys
import time
from collections.abc import Callable, Generator
from itertools import count

# Gives requests, is sent the body of each answer, and ends an errand by giving None.
Caller = Generator[bytes | None, bytes, None]


def run(port: int, errand: str, callers: int, errands: int) -> float:
    """Let callers do errands; return the seconds that it took. Raises RuntimeError if one is refused."""
    new_caller = ERRANDS[errand]
    selector = selectors.DefaultSelector()
    lines = [_Line(port, new_caller(number)) for number in range(callers)]
    for line in lines:
        selector.register(line.socket, selectors.EVENT_READ, line)
    started_s = time.perf_counter()
    for line in lines:
        line.begin()
    left = errands
    while left > 0:
        for key, _ in selector.select():
            left -= key.data.go_on()
    took_s = time.perf_counter() - started_s
    for line in lines:
        line.socket.close()
    return took_s


class _Line:
    """One caller and its connection."""

    def __init__(self, port: int, caller: Caller) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._caller = caller
        self._came = b""

    def begin(self) -> None:
        self._send(next(self._caller))

    def go_on(self) -> int:
        """Take in what came; return how many errands are done with it."""
        piece = self.socket.recv(65536)
        if not piece:
            raise RuntimeError("the server closed the connection")
        self._came += piece
        head, end, body = self._came.partition(b"\r\n\r\n")
        if not end:
            return 0
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"refused: {self._came.decode()}")
        _, is_there, length = head.partition(b"content-length: ")
        if is_there and len(body) < int(length.partition(b"\r\n")[0]):
            return 0
        self._came = b""
        request, done = self._caller.send(body), 0
        while request is None:
            request, done = next(self._caller), done + 1
        self._send(request)
        return done

    def _send(self, request: bytes | None) -> None:
        assert request is not None
        self.socket.sendall(request)


def _post(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def _enqueue(path: str) -> Callable[[int], Caller]:
    def caller(number: int) -> Caller:
        request = _post(path, {"payload": {"number": number, "to": "alice@example.com"}, "type": "mail"})
        while True:
            yield request
            yield None

    return caller


def _work(number: int) -> Caller:
    """Claim a job and complete it, as a worker that is known by its name."""
    worker = f"worker-{number}"
    claim = _post("/v1/jobs/claim", {"workerId": worker})
    for _ in count():
        job_id = json.loads((yield claim))["jobId"]
        yield _post(f"/v1/jobs/{job_id}/complete", {"workerId": worker})
        yield None


ERRANDS: dict[str, Callable[[int], Caller]] = {
    "enqueue": _enqueue("/v1/jobs"),
    "echo": _enqueue("/echo"),
    "work": _work,
}

if __name__ == "__main__":
    print(run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
