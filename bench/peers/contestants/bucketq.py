"""bucketq: an app and its worker, on a storage or through brokers, as the URL says."""

import asyncio
import json
import os
from collections.abc import Sequence

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async
from bucketq import App, Settings
from bucketq.app.worker import Worker


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        remote = url.startswith("grpc")
        # Brokers are told the same by their command line.
        settings = None if remote else Settings(stale_after_s=SILENT_S)
        options = json.loads(os.environ.get("PEERS_STORAGE", "null"))
        self.app = App(url, storage_options=None if remote else options, settings=settings)
        self.job = self.app.job(name="handle")(handle_async)

    async def open(self) -> None:
        await self.app.opened()

    async def enqueue(self, number: int) -> None:
        await self.job.enqueue(number=number, text=TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.job.enqueue_many({"number": number, "text": TEXT} for number in numbers)

    def work(self) -> None:
        asyncio.run(self.work_here())

    async def work_here(self) -> None:
        """Work on this event loop: what is in memory is nowhere else."""
        async with self.app:
            await Worker(self.app, concurrency=CONCURRENCY).run()
