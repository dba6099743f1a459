"""Fleet: an app's jobs on Spark's executors, beside what the cores themselves could do.

A job is busy for about a millisecond, and that is all. The bound is what as many plain processes as
there are cores get done of the same work, without a queue. It is measured before and after each run:
whatever else the machine does slows both.
"""

import asyncio
import multiprocessing
import os
import time
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from bench.finding import Finding
from bucketq import App
from bucketq.spark import local_session, run

CORES = 2
JOB_S = 0.001
WANTED = 0.7

app = App("memory://")


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    jobs: int = 100_000
    bound: int = 10_000
    turns: int = 3

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(jobs=500, bound=200, turns=1)


@app.job
def be_busy(rounds: int) -> None:
    """Take about a millisecond of a core, if that has nothing else to do."""
    # Not by a range: making its numbers takes now longer and now shorter.
    for _ in repeat(None, rounds):
        pass


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure a fleet."""
    rounds = _rounds()
    spark = local_session(f"local[{CORES}]")
    turns = list[_Turn]()
    try:
        # What Java has to warm up for is not counted.
        _play(spark, folder, amount.jobs // 20, rounds)
        for _ in range(amount.turns):
            before, busy_s = _bound(amount.bound, rounds)
            rate, cpu_s = _play(spark, folder, amount.jobs, rounds)
            after, _ = _bound(amount.bound, rounds)
            turns.append(_Turn((before + after) / 2, rate, busy_s, cpu_s))
    finally:
        spark.stop()
    turn = median_low(turns)
    busy_us = turn.busy_s * 1e6
    what = f"jobs of 1 ms a second, {CORES} plain processes and the fleet"
    return [
        Finding(what, turn.bound, turn.rate, least=WANTED),
        *(
            Finding(f"CPU µs of a job: being busy, {who}", busy_us, spent_s * 1e6)
            for who, spent_s in turn.cpu_s.items()
        ),
    ]


@dataclass(frozen=True)
class _Turn:
    bound: float
    rate: float
    busy_s: float
    # Of one job.
    cpu_s: dict[str, float]

    def __lt__(self, other: "_Turn") -> bool:
        return self.rate / self.bound < other.rate / other.bound


def _play(spark: SparkSession, folder: Path, jobs: int, rounds: int) -> tuple[float, dict[str, float]]:
    """Run jobs on the fleet: how many a second, and whose CPU a job took."""
    with TemporaryDirectory(dir=folder) as place:
        app.url = f"file://{place}/queue.json"
        asyncio.run(_fill(jobs, rounds))
        began_s, before = time.perf_counter(), _cpu_s()
        tally = run(app, spark, until_empty=True)
        took_s = time.perf_counter() - began_s
    assert tally.completed == jobs
    return jobs / took_s, {who: (spent_s - before[who]) / jobs for who, spent_s in _cpu_s().items()}


async def _fill(jobs: int, rounds: int) -> None:
    async with app:
        await be_busy.enqueue_many({"rounds": rounds} for _ in range(jobs))


def _rounds() -> int:
    """How many rounds take a millisecond, when nobody disturbs."""

    def took_s(rounds: int) -> float:
        began_s = time.perf_counter()
        be_busy(rounds)
        return time.perf_counter() - began_s

    return int(10_000 * JOB_S / min(took_s(10_000) for _ in range(200)))


def _bound(jobs: int, rounds: int) -> tuple[float, float]:
    """Jobs a second by plain processes, one for each core, and the CPU of each in seconds."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(CORES) as pool:
        pool.map(_be_busy_often, [(1, rounds)] * CORES, chunksize=1)
        began_s = time.perf_counter()
        cpu_s = sum(pool.map(_be_busy_often, [(jobs // CORES, rounds)] * CORES, chunksize=1))
        return jobs / (time.perf_counter() - began_s), cpu_s / jobs


def _be_busy_often(given: tuple[int, int]) -> float:
    times, rounds = given
    began_s = time.process_time()
    for _ in range(times):
        be_busy(rounds)
    return time.process_time() - began_s


def _cpu_s() -> dict[str, float]:
    """What this process, Java and the executors' Python have taken of the cores."""
    spent = {"the executors' Python": 0.0, "the driver's Python": sum(os.times()[:2]), "Java": 0.0}
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = path.read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        stats[int(path.parent.name)] = name, fields.split()
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, (name, fields) in stats.items():
        if pid != os.getpid() and os.getpid() in _ancestors(pid, stats):
            who = "Java" if name == "java" else "the executors' Python"
            spent[who] += (int(fields[11]) + int(fields[12])) / ticks
    return spent


def _ancestors(pid: int, stats: dict[int, tuple[str, list[str]]]) -> list[int]:
    found = []
    while pid in stats:
        pid = int(stats[pid][1][1])
        found.append(pid)
    return found
