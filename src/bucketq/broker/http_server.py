"""HttpServer: listens on one port, with a limit to everything that a connection may do."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from bucketq.broker.crowd import Crowd
from bucketq.broker.http_connection import HttpConnection
from bucketq.broker.ws_connection import WsConnection
from bucketq.errors import ConfigurationError
from bucketq.tls import Tls

# So many may wait to be accepted, and are accepted at once.
_BACKLOG = 512


class HttpServer:
    """Serves an ASGI application by HTTP and WebSocket."""

    def __init__(self, app: ASGIApp, crowd: Crowd) -> None:
        self._app = app
        self._crowd = crowd
        self._server: _Server | None = None
        self._listening: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listen; return the port, which is a free one if 0 was given. Raises ConfigurationError."""
        # Before anything listens: what is wrong with the certificates is told here.
        context = tls.server_context() if tls is not None else None
        listening = self._listening = _listen(host, port)
        config = uvicorn.Config(
            self._app,
            http="httptools",
            ws=WsConnection,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_context_factory=(lambda *_: context) if context is not None else None,
            # Whoever says for whom it asks is not believed.
            proxy_headers=False,
            ws_max_size=self._crowd.allowance.message_bytes_max,
            # A small message must not become a large one.
            ws_per_message_deflate=False,
        )
        self._server = _Server(config, self._crowd)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="bucketq http")
        await self._server.is_listening.wait()
        bound: int = listening.getsockname()[1]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way some time."""
        if self._server is not None and self._serving is not None and self._listening is not None:
            self._server.config.timeout_graceful_shutdown = int(grace_s)
            self._server.should_exit = True
            try:
                await self._serving
            finally:
                self._listening.close()


class _Server(uvicorn.Server):
    """Leaves the signals to whoever runs the broker, tells when it listens, and to all its connections."""

    def __init__(self, config: uvicorn.Config, crowd: Crowd) -> None:
        super().__init__(config)
        self.server_state = self._crowd = crowd
        self.is_listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        self.servers = [
            await loop.create_server(
                lambda: HttpConnection(self.config, self._crowd),
                sock=sock,
                ssl=tls,
                ssl_handshake_timeout=self._crowd.allowance.header_within_s if tls else None,
                backlog=_BACKLOG,
            )
            for sock in sockets or ()
        ]
        self.started = True
        self.is_listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, proto)
        # A broker that is started again need not wait for the last one's connections to be forgotten.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}; is another program there? {error}"
        ) from error
    listening.setblocking(False)
    return listening
