"""Health: a tiny HTTP server that tells whether a worker lives, and whether it gets jobs.

GET /healthz    200 while the event loop turns
GET /readyz     200 while jobs can be claimed, or else 503 and why they cannot
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from bucketq.errors import ConfigurationError

_REQUEST_S = 5.0
_STATUS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


@asynccontextmanager
async def told_health(host: str, port: int, trouble: Callable[[], str | None]) -> AsyncIterator[int]:
    """Answer requests inside the block; give the port, a free one for 0. Raises ConfigurationError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whoever does not speak HTTP gets no answer.
        with suppress(OSError, EOFError, IndexError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = _answer(head.split(b" ")[1], trouble)
                content = text.encode() + b"\n"
                writer.write(
                    f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                    f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"the health port {host}:{port} cannot be opened: {error}") from error
    async with server:
        yield server.sockets[0].getsockname()[1]


def _answer(path: bytes, trouble: Callable[[], str | None]) -> tuple[int, str]:
    match path:
        case b"/healthz":
            return 200, "ok"
        case b"/readyz":
            found = trouble()
            return (200, "ok") if found is None else (503, found)
        case _:
            return 404, "there are /healthz and /readyz"
