"""taskiq on a stream of Redis: of its brokers for Redis the one that has acknowledgements."""

import asyncio
from collections.abc import Sequence

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.broker = RedisStreamBroker(
            url, idle_timeout=SILENT_S * 1000, unacknowledged_lock_timeout=SILENT_S, consumer_id="0"
        )
        self.task = self.broker.register_task(handle_async, task_name="handle")

    async def open(self) -> None:
        await self.broker.startup()

    async def enqueue(self, number: int) -> None:
        await self.task.kiq(number, TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await asyncio.gather(*map(self.enqueue, numbers))

    def work(self) -> None:
        asyncio.run(run_receiver_task(self.broker, max_async_tasks=CONCURRENCY, run_startup=True))
