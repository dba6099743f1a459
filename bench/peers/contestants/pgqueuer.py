"""pgqueuer on PostgreSQL, by asyncpg."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle_async


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def prepare(self) -> None:
        await self.open()
        await self.queries.install()

    async def open(self) -> None:
        # A pool, since it makes a new connection when the server has dropped the old one.
        self.pool = await asyncpg.create_pool(self.url, min_size=2)
        self.queries = Queries(AsyncpgPoolDriver(self.pool))

    async def enqueue(self, number: int) -> None:
        await self.queries.enqueue("handle", _payload(number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        payloads = [_payload(number) for number in numbers]
        await self.queries.enqueue(["handle"] * len(payloads), payloads, [0] * len(payloads))

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        await self.open()
        queuer = PgQueuer.from_asyncpg_pool(self.pool)

        @queuer.entrypoint("handle")
        async def handle(job: Job) -> None:
            await handle_async(**json.loads(job.payload or b""))

        await queuer.run(
            batch_size=CONCURRENCY // 2,
            max_concurrent_tasks=CONCURRENCY,
            heartbeat_timeout=timedelta(seconds=SILENT_S),
            dequeue_timeout=timedelta(seconds=1),
        )


def _payload(number: int) -> bytes:
    return json.dumps({"number": number, "text": TEXT}).encode()
