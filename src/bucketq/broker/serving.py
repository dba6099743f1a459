"""serving: a broker together with its shells, from its first to its last call."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Beats, Broker
from bucketq.broker.door import Door
from bucketq.broker.grpc_shell import GrpcShell, in_brackets
from bucketq.broker.holdings import Holdings
from bucketq.broker.http_shell import HttpShell, Pages
from bucketq.broker.metrics import Metrics
from bucketq.broker.own_host import is_own_host
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import Tokens
from bucketq.broker.turnstile import Turnstile
from bucketq.settings import Settings
from bucketq.storage.port import Bucket
from bucketq.tls import Tls

_LAST_CALLS_S = 5.0


class Inside(NamedTuple):
    """The parts of a broker, for whoever shows them to people."""

    storage: Bucket
    service: Service
    rpc: Rpc
    door: Door
    metrics: Metrics
    needs_token: bool
    is_encrypted: bool


@asynccontextmanager
async def serving(
    storage: Bucket,
    *,
    host: str = "localhost",
    grpc_port: int | None = 0,
    http_port: int = 0,
    advertise: str | None = None,
    cors_origins: Collection[str] = (),
    settings: Settings | None = None,
    beats: Beats | None = None,
    tokens: TokenFile | Tokens | None = None,
    tls: Tls | None = None,
    allowance: Allowance | None = None,
    pages: Callable[[Inside], AbstractAsyncContextManager[Pages]] | None = None,
) -> AsyncIterator[Broker]:
    """Run a broker for a queue while the block runs; at its end flush, step down and close.

        async with serving(open_storage("file:///var/lib/myapp/queue.json"), grpc_port=7420):
            await asyncio.Event().wait()

    With no `grpc_port`, None, it speaks HTTP and WebSocket alone. `advertise` is the host that clients
    are told, if it is not `host`; with a port it is the whole address for gRPC. `cors_origins` are those
    whose web pages may talk to the broker. Without tokens everybody may do everything, without TLS
    everybody on the way can read along. With `ca`, `tls` lets only clients in who have a certificate of
    that authority. `pages` opens what is served beside the queue: the dashboard. Raises
    ConfigurationError.
    """
    broker = Broker(storage, settings, beats)
    file, known = (tokens, tokens.read()) if isinstance(tokens, TokenFile) else (None, tokens)
    allowance = allowance or Allowance()
    turnstile = Turnstile(allowance)
    metrics = Metrics(broker)
    metrics.waiting.set_function(lambda: turnstile.waiting)
    service = Service(broker, allowance, turnstile)
    door = Door(known, turnstile, metrics.answered)
    rpc = Rpc(service)
    holdings = Holdings(allowance)
    grpc_shell = GrpcShell(service, rpc, door, holdings)
    http_shell = HttpShell(service, rpc, door, allowance, metrics, cors_origins, holdings)
    async with AsyncExitStack() as stack:
        name = re.sub(r":\d+$", "", advertise) if advertise else in_brackets(host)
        # A token, or a certificate in its name, is what a page lacks that goes by a false one.
        is_open = known is None and tls is None
        if pages is not None:
            inside = Inside(broker.storage, service, rpc, door, metrics, known is not None, tls is not None)
            http_shell.pages = await stack.enter_async_context(pages(inside))
        http_bound = await http_shell.start(host, http_port, (host, name) if is_open else None, tls)
        stack.push_async_callback(http_shell.stop, _LAST_CALLS_S)
        broker.http, is_bound_there = f"{name}:{http_bound}", True
        if grpc_port is not None:
            grpc_bound = await grpc_shell.start(host, grpc_port, tls)
            stack.push_async_callback(grpc_shell.stop, _LAST_CALLS_S)
            broker.address = advertise if advertise and advertise != name else f"{name}:{grpc_bound}"
            is_bound_there = broker.address.endswith(f":{grpc_bound}")
        broker.is_at_home = is_bound_there and await is_own_host(name)
        running = asyncio.create_task(broker.run(), name="bucketq broker")
        telling = asyncio.create_task(_tell_health(broker, grpc_shell), name="bucketq health")
        keeping = asyncio.create_task(door.keep(file), name="bucketq door")
        try:
            yield broker
        finally:
            broker.stop()
            try:
                await running
            finally:
                telling.cancel()
                keeping.cancel()


async def _tell_health(broker: Broker, shell: GrpcShell) -> None:
    while True:
        await broker.wait_changed()
        shell.tell_health()
