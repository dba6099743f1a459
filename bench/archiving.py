"""Archiving: what it costs to keep every finished job.

The same jobs are drained with the archive off and on, in turns. The requests are counted:
those with it on, less those with it off.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.finding import Finding
from bucketq import BrokerQueue, InMemoryStorage, LocalFileSystemStorage, Settings
from bucketq.storage import Bucket

BATCH = 100


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    jobs: int = 10_000
    turns: int = 9

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(jobs=2_000, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what archiving costs."""
    on_file = _rates(lambda name: LocalFileSystemStorage(folder / name), amount)
    in_memory = _rates(lambda name: InMemoryStorage(), amount)
    requests = [
        asyncio.run(_requests(amount.jobs, archive)) / amount.jobs * 1000 for archive in (False, True)
    ]
    return [
        Finding("jobs finished a second, local file, archive off and on", *on_file, least=0.85),
        Finding("jobs finished a second, in memory, archive off and on", *in_memory, least=0.85),
        Finding("requests for 1,000 finished jobs, archive off and on", *requests),
    ]


def _rates(open_storage: Callable[[str], Bucket], amount: Amount) -> tuple[float, float]:
    """Jobs a second with the archive off, and that times the median of the turns' ratios."""
    off, ratios = [], []
    for turn in range(amount.turns):
        rates = [
            asyncio.run(_drain(open_storage(f"{turn}-{archive}.json"), amount.jobs, archive))
            for archive in (False, True)
        ]
        off.append(rates[0])
        ratios.append(rates[1] / rates[0])
    return median(off), median(off) * median(ratios)


async def _drain(storage: Bucket, jobs: int, archive: bool) -> float:
    async with BrokerQueue(storage, settings=Settings(archive=archive)) as q:
        await q.enqueue_many("mail", ({"number": n, "to": "alice@example.com"} for n in range(jobs)))
        started_s = time.perf_counter()
        for _ in range(jobs // BATCH):
            claimed = await q.dequeue(batch_size=BATCH)
            assert len(claimed) == BATCH
            await q.ack_many(claimed)
        return jobs / (time.perf_counter() - started_s)


async def _requests(jobs: int, archive: bool) -> int:
    storage = CountingStorage()
    await _drain(storage, jobs, archive)
    return storage.requests


class CountingStorage(InMemoryStorage):
    """Counts every request, also those for the objects beside the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        create, read = self.objects.create, self.objects.read

        async def counted_create(name: str, content: bytes) -> None:
            self.requests += 1
            await create(name, content)

        async def counted_read(name: str) -> bytes:
            self.requests += 1
            return await read(name)

        self.objects.create = counted_create  # type: ignore[method-assign]
        self.objects.read = counted_read  # type: ignore[method-assign]

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        self.requests += 1
        return await super().write(content, if_match)
