"""A dashboard on a server of its own, before a storage or before brokers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bucketq.broker.allowance import Allowance
from bucketq.broker.crowd import Crowd
from bucketq.broker.door import Door
from bucketq.broker.http_server import HttpServer
from bucketq.broker.site import Advice, Site
from bucketq.broker.token_file import TokenFile
from bucketq.dashboard.gate import BASE, Gate
from bucketq.dashboard.house import House, RemoteHouse, StorageHouse
from bucketq.dashboard.mount import mounted
from bucketq.errors import ConfigurationError
from bucketq.loopback import is_loopback
from bucketq.settings import Settings
from bucketq.storage import open_storage
from bucketq.tls import Tls
from bucketq.url import BROKER_SCHEMES

_LAST_CALLS_S = 1.0
_ADVICE = Advice("this dashboard", "see --host", "open it by its own address")


@asynccontextmanager
async def alone(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tokens: TokenFile | None = None,
    tls: Tls | None = None,
    is_open: bool = False,
    report: Path | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[str]:
    """Serve the dashboard of the queue at a URL while the block runs, which gets its address.

    Beyond this machine everybody has to show a token, unless it `is_open` to all. Raises
    ConfigurationError.
    """
    is_private = is_loopback(host) or is_open
    settings = settings or Settings()
    async with AsyncExitStack() as stack:
        if url.partition("://")[0] in BROKER_SCHEMES:
            if tokens is not None:
                raise ConfigurationError("the brokers know their tokens: tokens of its own go with a storage")
            house: House = RemoteHouse(url, settings, needs_token=not is_private)
        else:
            door = Door(tokens.read() if tokens is not None else None)
            house = StorageHouse(open_storage(url), settings, door, needs_token=tokens is not None)
            keeping = asyncio.create_task(door.keep(tokens), name="bucketq door")
            stack.callback(keeping.cancel)
        gate = await stack.enter_async_context(mounted(house, is_encrypted=tls is not None, report=report))
        # A token is what a page lacks that goes by a false name.
        names = None if house.needs_token or tls is not None else (host, socket.gethostname())
        server = HttpServer(Site(_rooted(gate), (), names, _ADVICE), Crowd(Allowance()))
        bound = await server.start(host, port, tls)
        stack.push_async_callback(server.stop, _LAST_CALLS_S)
        yield f"{'https' if tls else 'http'}://{host}:{bound}{BASE}"


def _rooted(gate: Gate) -> ASGIApp:
    """Whoever comes to another path goes to the dashboard: there is nothing else."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if gate.is_at(scope["path"]):
            await gate(scope, receive, send)
        else:
            await RedirectResponse(f"{BASE}/", 303)(scope, receive, send)

    return serve
