"""serving: a broker together with its shell, from its first to its last call."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bucketq.broker.broker import Beats, Broker
from bucketq.broker.grpc_shell import GrpcShell, in_brackets
from bucketq.broker.service import Service
from bucketq.settings import Settings
from bucketq.storage.port import Bucket

_LAST_CALLS_S = 5.0


@asynccontextmanager
async def serving(
    storage: Bucket,
    *,
    host: str = "localhost",
    grpc_port: int = 0,
    advertise: str | None = None,
    settings: Settings | None = None,
    beats: Beats | None = None,
) -> AsyncIterator[Broker]:
    """Run a broker for a queue while the block runs; at its end flush, step down and close.

        async with serving(open_storage("file:///var/lib/myapp/queue.json"), grpc_port=7420):
            await asyncio.Event().wait()

    `advertise` is the host, or the whole address, that clients are told, if it is not `host`.
    """
    broker = Broker(storage, settings, beats)
    shell = GrpcShell(Service(broker))
    port = await shell.start(host, grpc_port)
    advertise = advertise or in_brackets(host)
    has_port = re.search(r":\d+$", advertise)
    broker.address = advertise if has_port else f"{advertise}:{port}"
    running = asyncio.create_task(broker.run(), name="bucketq broker")
    telling = asyncio.create_task(_tell_health(broker, shell), name="bucketq health")
    try:
        yield broker
    finally:
        broker.stop()
        try:
            await running
        finally:
            telling.cancel()
            await shell.stop(_LAST_CALLS_S)


async def _tell_health(broker: Broker, shell: GrpcShell) -> None:
    while True:
        await broker.wait_changed()
        await shell.tell_health()
