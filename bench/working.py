"""Working: what a worker gets done, beside the bare queue, and how soon it begins.

All on local files, with fsync. The queue and the worker take turns; of each the best turn counts,
since whatever else the machine does only makes them slower.
"""

import asyncio
import gc
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from bench.errands import age, app, errand, on_run
from bench.finding import Finding
from bench.floor import floor_s
from bench.side import ROOT
from bucketq import BrokerQueue, LocalFileSystemStorage
from bucketq.app.worker import Worker

CONCURRENCY = 100
# 200 bytes of JSON.
ARGUMENTS = {"to": "alice@example.com", "text": "x" * 163}
# What others reach on such a machine: pgqueuer on PostgreSQL, and SAQ on Redis.
DRAINED_PER_S = 8_400
ENQUEUED_PER_S = 6_300
ENQUEUED_MANY_PER_S = 28_000
IDLE_MS = 5
# Of a queue with a few jobs.
_COMMIT_BYTES = 5_000


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    jobs: int = 30_000
    enqueued: int = 5_000
    begun: int = 50
    turns: int = 5

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(jobs=500, enqueued=200, begun=3, turns=1)


@dataclass(frozen=True)
class Turn:
    """Starts in an idle worker: the milliseconds of each, and those of two bare commits right after it."""

    starts: list[tuple[float, float]]

    @property
    def begun_ms(self) -> float:
        """The median start."""
        return median(begun_ms for begun_ms, _ in self.starts)

    @property
    def late_ms(self) -> float:
        """Only one start in twenty took longer."""
        return quantiles((begun_ms for begun_ms, _ in self.starts), n=20)[-1]

    @property
    def floor_ms(self) -> float:
        """Without any queue: one commit of who enqueues, one of who claims."""
        return median(floor_ms for _, floor_ms in self.starts)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure everything about workers."""
    raw, worked, one_by_one, many = [], [], [], []
    for _ in range(amount.turns):
        for figures, play in ((raw, _drain), (worked, _work), (one_by_one, _enqueue), (many, _fill)):
            gc.collect()
            with TemporaryDirectory(dir=folder) as place:
                figures.append(asyncio.run(play(Path(place) / "queue.json", amount)))
    idle = _begin(folder / "queue.json", amount)
    return [
        Finding("jobs/s: dequeue+ack_many, and a worker", max(raw), max(worked), least=0.5),
        Finding("jobs/s: pgqueuer, and a worker", DRAINED_PER_S, max(worked), least=1),
        Finding("enqueue/s, 100 callers: SAQ, and a handler's", ENQUEUED_PER_S, max(one_by_one), least=1),
        Finding("enqueue_many/s: pgqueuer, and a handler's", ENQUEUED_MANY_PER_S, max(many), least=1),
        Finding("ms from enqueue to an idle start: at most, median", IDLE_MS, idle.begun_ms, most=1),
        Finding("ms: two bare durable writes, and 50% of such starts", idle.floor_ms, idle.begun_ms),
        Finding("ms: 50% and 95% of such starts", idle.begun_ms, idle.late_ms),
    ]


async def _drain(path: Path, amount: Amount) -> float:
    async with BrokerQueue(LocalFileSystemStorage(path)) as queue:
        await queue.enqueue_many("errand", (ARGUMENTS for _ in range(amount.jobs)))
        started_s, done = time.perf_counter(), 0
        while done < amount.jobs:
            jobs = await queue.dequeue("errand", batch_size=CONCURRENCY)
            assert await queue.ack_many(jobs) == []
            done += len(jobs)
        return amount.jobs / (time.perf_counter() - started_s)


async def _work(path: Path, amount: Amount) -> float:
    app.url = f"file://{path}"
    worker = Worker(app, concurrency=CONCURRENCY, entrypoints=["errand"])
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done == amount.jobs:
            worker.stop()

    on_run[:] = [count]
    async with app:
        await errand.enqueue_many(ARGUMENTS for _ in range(amount.jobs))
        started_s = time.perf_counter()
        # It returns when every ack has landed.
        await worker.run()
        took_s = time.perf_counter() - started_s
        assert (await (await app.opened()).stats()).completed_total == amount.jobs
    return amount.jobs / took_s


async def _enqueue(path: Path, amount: Amount) -> float:
    app.url = f"file://{path}"

    async def call() -> None:
        for _ in range(amount.enqueued // CONCURRENCY):
            await errand.enqueue(**ARGUMENTS)

    async with app:
        started_s = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(CONCURRENCY)))
        return amount.enqueued / (time.perf_counter() - started_s)


async def _fill(path: Path, amount: Amount) -> float:
    app.url = f"file://{path}"
    async with app:
        started_s = time.perf_counter()
        await errand.enqueue_many(ARGUMENTS for _ in range(amount.jobs))
        return amount.jobs / (time.perf_counter() - started_s)


def _begin(path: Path, amount: Amount) -> Turn:
    """The best turn of starts in a worker, another process, that waits."""
    app.url = f"file://{path}"
    command = [sys.executable, "-m", "bucketq", "work", "bench.errands:app", "--url", app.url]
    worker = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT)
    try:
        return asyncio.run(_send(path.with_name("floor.json"), amount))
    finally:
        worker.terminate()
        worker.wait()


async def _send(floor: Path, amount: Amount) -> Turn:
    async with app:
        await _send_one(floor)
        turns = [Turn([await _send_one(floor) for _ in range(amount.begun)]) for _ in range(amount.turns)]
        return min(turns, key=lambda turn: turn.begun_ms)


async def _send_one(floor: Path) -> tuple[float, float]:
    """The milliseconds from the call of enqueue here to the start there, and those of two bare commits."""
    job = await age.enqueue(time.monotonic())
    begun_s = await age.result(job, timeout=60)
    # Long enough for the worker to have settled the job, and to wait.
    await asyncio.sleep(0.1)
    return begun_s * 1000, floor_s([_COMMIT_BYTES] * 2, floor) * 1000
