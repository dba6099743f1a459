"""The life of a job: what delays, keys and limits cost those who use them, and whether turns are fair.

Each feature is measured beside a plain queue of the same run: many callers at once, on local
files, by CPU, which a busy disk does not disturb. The two queues take turns.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from bench.finding import Finding
from bucketq import BrokerQueue, LocalFileSystemStorage
from bucketq.queue import Queue

MOST = 1.3
_FAR_S = 30 * 86400.0


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    scheduled: int = 100_000
    keyed: int = 10_000
    tenants: int = 1_000
    flood: int = 100_000
    callers: int = 200
    rounds: int = 5
    turns: int = 15

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(scheduled=3_000, keyed=500, tenants=20, flood=3_000, callers=20, rounds=2, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure everything about the life of a job."""
    return asyncio.run(_measure(folder, amount))


async def _measure(folder: Path, amount: Amount) -> list[Finding]:
    numbers = count()

    async def schedule(q: Queue) -> None:
        await q.enqueue_many("mail", range(amount.scheduled), delay=_FAR_S)

    async def fill_with_keys(q: Queue) -> None:
        # Of another entrypoint: they stay, and their keys are asked for with every enqueue.
        for start in range(0, amount.keyed, 1000):
            size = min(1000, amount.keyed - start)
            keys = (f"waiting-{start + number}" for number in range(size))
            await asyncio.gather(*(q.enqueue("other", key=key) for key in keys))

    async def limit(q: Queue) -> None:
        await q.limit("mail", max_running=10 * amount.callers, rate=1e6)
        await q.limit(limit_key="user-*", max_running=2)

    return [
        *await _compare(folder, amount, f"{amount.scheduled:,} scheduled", schedule),
        *await _compare(
            folder, amount, f"{amount.keyed:,} keys", fill_with_keys, lambda: {"key": f"key-{next(numbers)}"}
        ),
        *await _compare(
            folder, amount, "limits", limit, lambda: {"limit_key": f"user-{next(numbers) % 1000}"}
        ),
        await _fairness(folder, amount),
    ]


async def _fairness(folder: Path, amount: Amount) -> Finding:
    """How many jobs are served before those of tenants that come while another one floods the queue."""
    waits = {}
    for name, flood in (("calm", 0), ("flooded", amount.flood)):
        async with BrokerQueue(LocalFileSystemStorage(folder / f"{name}.json")) as q:
            if flood:
                await q.enqueue_many("mail", range(flood), tenant="flooding")
            tenants = (f"tenant-{number}" for number in range(amount.tenants))
            await asyncio.gather(*(q.enqueue("mail", tenant=tenant) for tenant in tenants))
            served, places = 0, list[int]()
            while len(places) < amount.tenants:
                jobs = await q.dequeue("mail", batch_size=100)
                places += [served + place for place, job in enumerate(jobs) if job.tenant != "flooding"]
                served += len(jobs)
                assert await q.ack_many(jobs) == []
            waits[name] = sum(places) / len(places)
    title = f"{amount.tenants:,} tenants, one with {amount.flood:,} jobs: jobs served before the others"
    return Finding(title, waits["calm"], waits["flooded"], most=2)


async def _compare(
    folder: Path,
    amount: Amount,
    name: str,
    prepare: Callable[[Queue], Any],
    options: Callable[[], dict[str, Any]] = dict,
) -> list[Finding]:
    spent: dict[str, dict[str, list[float]]] = {
        which: {"enqueue": [], "dequeue": []} for which in ("plain", "used")
    }
    plain = BrokerQueue(LocalFileSystemStorage(folder / f"{name} plain.json"))
    used = BrokerQueue(LocalFileSystemStorage(folder / f"{name} used.json"))
    async with plain, used:
        await prepare(used)
        for turn in range(amount.turns + 1):
            for which, queue, asked in (("plain", plain, dict), ("used", used, options)):
                for _ in range(amount.rounds):
                    enqueue_s, dequeue_s = await _round(queue, amount.callers, asked)
                    if turn:  # the first one warms up
                        spent[which]["enqueue"].append(enqueue_s)
                        spent[which]["dequeue"].append(dequeue_s)
    return [
        Finding(
            f"{name}: CPU µs of {what}",
            median(spent["plain"][what]) / amount.callers * 1e6,
            median(spent["used"][what]) / amount.callers * 1e6,
            most=MOST,
        )
        for what in ("enqueue", "dequeue")
    ]


async def _round(queue: Queue, callers: int, options: Callable[[], dict[str, Any]]) -> tuple[float, float]:
    """Many enqueues at once, then as many dequeues: the CPU seconds of each."""
    started_s = time.process_time()
    await asyncio.gather(
        *(queue.enqueue("mail", {"number": number}, **options()) for number in range(callers))
    )
    between_s = time.process_time()
    claimed = await asyncio.gather(*(queue.dequeue("mail") for _ in range(callers)))
    ended_s = time.process_time()
    jobs = [job for found in claimed for job in found]
    assert len(jobs) == callers, "each caller got one"
    assert await queue.ack_many(jobs) == []
    return between_s - started_s, ended_s - between_s
