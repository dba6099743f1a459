"""jqueue on a local file. It has no worker of its own: this is the loop of its README, with heartbeats."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

from jqueue import BrokerQueue, HeartbeatManager, LocalFileSystemStorage

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async

IDLE_S = 0.05


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        storage = LocalFileSystemStorage(url.removeprefix("file://"))
        self.queue = BrokerQueue(storage, stale_timeout=timedelta(seconds=SILENT_S))

    async def open(self) -> None:
        await self.queue.__aenter__()

    async def enqueue(self, number: int) -> None:
        await self.queue.enqueue("handle", json.dumps({"number": number, "text": TEXT}).encode())

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await asyncio.gather(*map(self.enqueue, numbers))

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        await self.open()
        while True:
            jobs = await self.queue.dequeue("handle", batch_size=CONCURRENCY)
            await asyncio.gather(*(self._run(job.id, job.payload) for job in jobs))
            if not jobs:
                await asyncio.sleep(IDLE_S)

    async def _run(self, job_id: str, payload: bytes) -> None:
        async with HeartbeatManager(self.queue, job_id, interval=timedelta(seconds=SILENT_S / 3)):
            await handle_async(**json.loads(payload))
        await self.queue.ack(job_id)
