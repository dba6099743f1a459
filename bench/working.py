"""Working: what a worker gets done, beside the bare queue, and how soon it begins.

All on local files, with fsync. The queue and the worker take turns; of each the best turn counts,
since whatever else the machine does only makes them slower.
"""

import asyncio
import gc
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from bench.deep import Finding
from bench.errands import age, app, errand, on_run
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


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure everything about workers."""
    folder = folder / "work"
    shutil.rmtree(folder, ignore_errors=True)
    raw, worked, one_by_one, many = [], [], [], []
    try:
        for _ in range(amount.turns):
            for figures, play in ((raw, _drain), (worked, _work), (one_by_one, _enqueue), (many, _fill)):
                folder.mkdir()
                gc.collect()
                figures.append(asyncio.run(play(folder / "queue.json", amount)))
                shutil.rmtree(folder)
        folder.mkdir()
        begun_ms = min(_begin(folder / "queue.json", amount), key=median)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Finding("jobs/s: dequeue+ack_many, and a worker", max(raw), max(worked), least=0.5),
        Finding("jobs/s: pgqueuer, and a worker", DRAINED_PER_S, max(worked), least=1),
        Finding("enqueue/s, 100 callers: SAQ, and a handler's", ENQUEUED_PER_S, max(one_by_one), least=1),
        Finding("enqueue_many/s: pgqueuer, and a handler's", ENQUEUED_MANY_PER_S, max(many), least=1),
        Finding("ms from enqueue to an idle start: at most, median", IDLE_MS, median(begun_ms), most=1),
        Finding("the same, 95%", IDLE_MS, quantiles(begun_ms, n=20)[-1]),
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


def _begin(path: Path, amount: Amount) -> list[list[float]]:
    """Of each turn, milliseconds from the call of enqueue here to the start in a worker, another process."""
    app.url = f"file://{path}"
    command = [sys.executable, "-m", "bucketq", "work", "bench.errands:app", "--url", app.url]
    worker = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT)
    try:
        return asyncio.run(_send(amount))
    finally:
        worker.terminate()
        worker.wait()


async def _send(amount: Amount) -> list[list[float]]:
    async with app:
        await age.result(await age.enqueue(time.monotonic()), timeout=60)
        return [[await _send_one() for _ in range(amount.begun)] for _ in range(amount.turns)]


async def _send_one() -> float:
    # Long enough for the worker to have settled the last one, and to wait.
    await asyncio.sleep(0.1)
    job = await age.enqueue(time.monotonic())
    return await age.result(job, timeout=60) * 1000
