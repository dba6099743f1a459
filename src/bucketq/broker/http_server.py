"""HttpServer: listens on one port, with a limit to everything that a connection may do."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from bucketq.broker.crowd import Crowd
from bucketq.broker.http_connection import HttpConnection
from bucketq.broker.ws_connection import WsConnection
from bucketq.errors import ConfigurationError
from bucketq.tls import Tls

# So many may wait to be accepted, and are accepted at once.
_BACKLOG = 512
# Python's TLS holds 300 KB for each connection, in whatever state.
_TLS_CONNECTIONS_MAX = 2_500
# TLS handshakes at a time. At the limit one has so many seconds before it gives way to a new one.
_HANDSHAKES_MAX = 500
_HANDSHAKE_S = 1.0
_ACCEPT_AGAIN_S = 0.1
# How often the Date header is renewed, and how often a server that stops looks whether its calls have ended.
_DATE_S = 1.0
_LOOK_AGAIN_S = 0.01


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
        if context is not None and not self._crowd.allowance.connections_max:
            self._crowd.connections_max = min(self._crowd.connections_max, _TLS_CONNECTIONS_MAX)
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
            # A large answer is read before the ping behind it.
            ws_ping_timeout=self._crowd.allowance.body_within_s,
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
            self._server.grace_s = grace_s
            self._server.should_exit = True
            self._server.stopping.set()
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
        self.stopping = asyncio.Event()
        self.grace_s = 0.0

    async def main_loop(self) -> None:
        # uvicorn's own wakes up ten times a second.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_S):
                    await self.stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in [*self._crowd.connections]:
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace_s):
                while True:
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    if not (self._crowd.connections or self._crowd.tasks):
                        break
                for server in self.servers:
                    await server.wait_closed()
        for task in self._crowd.tasks:
            task.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        servers: list[Any] = [
            await loop.create_server(self._new_connection, sock=sock, backlog=_BACKLOG)
            if tls is None
            else _TlsListener(sock, tls, self._new_connection, self._crowd.allowance.header_within_s)
            for sock in sockets or ()
        ]
        self.servers = servers
        self.started = True
        self.is_listening.set()

    def _new_connection(self) -> HttpConnection:
        return HttpConnection(self.config, self._crowd)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TlsListener:
    """Accepts connections with TLS, and bounds how many handshakes are under way.

    Each costs 300 KB and is no connection yet, so `Crowd` does not count it.
    """

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext,
        new_connection: Callable[[], asyncio.BaseProtocol],
        within_s: float,
    ) -> None:
        self._listening = listening
        self._tls = tls
        self._new_connection = new_connection
        self._within_s = within_s
        # When each began, oldest first.
        self._handshakes: dict[asyncio.Task[None], float] = {}
        self._accepting = asyncio.create_task(self._accept(), name="bucketq tls")

    def close(self) -> None:
        """Accept no more, and end the handshakes."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Return once nothing is under way."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, _ = await loop.sock_accept(self._listening)
            except OSError:
                # The peer is gone already, or this process can open no more files.
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            handshake = asyncio.create_task(self._shake_hands(line))
            self._handshakes[handshake] = loop.time()
            handshake.add_done_callback(self._handshakes.pop)
            await self._make_room()

    async def _make_room(self) -> None:
        # A pending connection is accepted without a pause, so others get their turn here.
        await asyncio.sleep(0)
        if len(self._handshakes) >= _HANDSHAKES_MAX:
            oldest, began_s = next(iter(self._handshakes.items()))
            left_s = began_s + _HANDSHAKE_S - asyncio.get_running_loop().time()
            ended, _ = await asyncio.wait(
                self._handshakes, timeout=max(0, left_s), return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                oldest.cancel()
                # Until it has ended it counts, and the next one would cancel it again.
                await asyncio.wait([oldest])

    async def _shake_hands(self, line: socket.socket) -> None:
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._new_connection, line, ssl=self._tls, ssl_handshake_timeout=self._within_s
            )


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
