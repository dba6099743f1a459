"""SAQ on Redis."""

import asyncio
from collections.abc import Sequence
from typing import Any

from saq import Queue, Worker

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.queue = Queue.from_url(url)

    async def open(self) -> None:
        await self.queue.connect()

    async def enqueue(self, number: int) -> None:
        # A job is tried once if not told otherwise: with its worker it would be gone. Results are not kept.
        await self.queue.enqueue("handle", number=number, text=TEXT, retries=10, timeout=SILENT_S, ttl=-1)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await asyncio.gather(*map(self.enqueue, numbers))

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        async def handle(context: Any, *, number: int, text: str) -> None:
            await handle_async(number, text)

        timers: Any = {"sweep": 1}
        worker = Worker(self.queue, [("handle", handle)], concurrency=CONCURRENCY, timers=timers)
        await worker.start()
