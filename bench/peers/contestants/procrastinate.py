"""procrastinate on PostgreSQL. Jobs of dead workers come back by a periodic task, as it recommends."""

import asyncio
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self.task = self.app.task(name="handle")(handle_async)

        @self.app.periodic(cron="* * * * * */2")
        @self.app.task(name="retry_stalled", queueing_lock="retry_stalled")
        async def retry_stalled(timestamp: int) -> None:
            manager = self.app.job_manager
            for job in await manager.get_stalled_jobs(seconds_since_heartbeat=SILENT_S):
                await manager.retry_job(job)

    async def prepare(self) -> None:
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def enqueue(self, number: int) -> None:
        await self.task.defer_async(number=number, text=TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.task.batch_defer_async(*({"number": number, "text": TEXT} for number in numbers))

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with self.app.open_async():
            await self.app.run_worker_async(
                concurrency=CONCURRENCY,
                update_heartbeat_interval=SILENT_S / 3,
                stalled_worker_timeout=SILENT_S,
            )
