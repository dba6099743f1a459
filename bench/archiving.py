"""Archiving: what it costs to keep every finished job.

The same jobs are drained with the archive off and on, in turns. The requests are counted:
those with it on, less those with it off.
"""

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.deep import Finding
from bucketq import BrokerQueue, InMemoryStorage, LocalFileSystemStorage, Settings

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
    folder = folder / "archiving"
    shutil.rmtree(folder, ignore_errors=True)
    rates: dict[bool, list[float]] = {False: [], True: []}
    try:
        for turn in range(amount.turns):
            for archive in (False, True):
                storage = LocalFileSystemStorage(folder / f"{turn}-{archive}.json")
                rates[archive].append(asyncio.run(_drain(storage, amount.jobs, archive)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    requests = {archive: asyncio.run(_requests(amount.jobs, archive)) for archive in (False, True)}
    ratio = median(on / off for off, on in zip(rates[False], rates[True], strict=True))
    off = median(rates[False])
    return [
        Finding("jobs finished a second, archive off and on", off, off * ratio, least=0.85),
        Finding(
            "requests for 1,000 finished jobs, off and on",
            requests[False] / amount.jobs * 1000,
            requests[True] / amount.jobs * 1000,
        ),
    ]


async def _drain(storage: LocalFileSystemStorage | InMemoryStorage, jobs: int, archive: bool) -> float:
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
