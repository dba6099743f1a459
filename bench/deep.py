"""Deep backlogs: what a commit, a load, an opening and a drain cost when a million jobs wait.

All on local files. Commits are timed by CPU, which a busy disk does not disturb. The two
queues take turns, so that whatever else the machine does slows both.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.finding import Finding
from bench.side import ROOT
from bucketq import BrokerQueue, LocalFileSystemStorage

SHALLOW = 1_000
BATCH = 100
CALLERS = 200


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    waiting: int = 1_000_000
    short_load: int = 10_000
    drained: int = 100_000
    rounds: int = 300
    turns: int = 7

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(waiting=12_000, short_load=3_000, drained=5_000, rounds=10, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure everything about deep backlogs."""
    return [
        *_loads(folder, amount),
        *asyncio.run(_commits(folder, amount)),
        asyncio.run(_growth(folder, amount)),
        asyncio.run(_opening(folder)),
        asyncio.run(_drains(folder, amount)),
    ]


def _loads(folder: Path, amount: Amount) -> Iterator[Finding]:
    """Load the two queues, each in a process of its own, whose memory is then known."""
    short = [
        _load_in_process(folder / f"short-{turn}.json", amount.short_load) for turn in range(amount.turns)
    ]
    long = _load_in_process(folder / "deep.json", amount.waiting)
    _load_in_process(folder / "shallow.json", SHALLOW)
    per_job = median(load["seconds"] for load in short) / amount.short_load * 1e6
    name = f"enqueue_many of {amount.short_load:,} and {amount.waiting:,}"
    yield Finding(f"{name}: µs a job", per_job, long["seconds"] / amount.waiting * 1e6, most=2)
    yield Finding(f"{name}: peak MB of memory", median(load["peak_mb"] for load in short), long["peak_mb"])


def _load_in_process(path: Path, jobs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.deep", str(path), str(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def _load(path: Path, jobs: int) -> dict[str, float]:
    async with BrokerQueue(LocalFileSystemStorage(path)) as q:
        started_s = time.perf_counter()
        await q.enqueue_many("mail", _payloads(jobs))
        seconds = time.perf_counter() - started_s
    return {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _payloads(jobs: int) -> Iterator[dict[str, object]]:
    return ({"number": number, "to": "alice@example.com"} for number in range(jobs))


async def _commits(folder: Path, amount: Amount) -> list[Finding]:
    """Enqueue one, dequeue one, ack it, again and again, on both queues in turn."""
    cpu: dict[str, list[float]] = {"shallow": [], "deep": []}
    size: dict[str, list[float]] = {"shallow": [], "deep": []}
    largest: dict[str, int] = {"shallow": 0, "deep": 0}
    async with _counted(folder / "shallow.json") as shallow, _counted(folder / "deep.json") as deep:
        for queue, _ in (shallow, deep):
            await _rounds(queue, amount.rounds // 4)
        for _ in range(amount.turns):
            for name, (queue, storage) in (("shallow", shallow), ("deep", deep)):
                storage.sizes.clear()
                started_s = time.process_time()
                await _rounds(queue, amount.rounds)
                cpu[name].append((time.process_time() - started_s) / len(storage.sizes) * 1e6)
                size[name].append(sum(storage.sizes) / len(storage.sizes))
                largest[name] = max(largest[name], *storage.sizes)
    return [
        Finding("CPU µs a commit", median(cpu["shallow"]), median(cpu["deep"]), most=1.5),
        Finding("bytes a commit", median(size["shallow"]), median(size["deep"]), most=1.5),
        Finding("largest queue.json, of 1 MB", largest["shallow"] / 1e6, largest["deep"] / 1e6),
    ]


async def _rounds(queue: BrokerQueue, rounds: int) -> None:
    for number in range(rounds):
        await queue.enqueue("mail", {"number": number, "to": "alice@example.com"})
        [job] = await queue.dequeue("mail")
        await queue.ack(job)


async def _growth(folder: Path, amount: Amount) -> Finding:
    """Let the backlog grow by single calls of many callers, without a worker."""
    async with _counted(folder / "growth.json") as (queue, storage):

        async def produce() -> None:
            for number in range(amount.drained // CALLERS):
                await queue.enqueue("mail", {"number": number, "to": "alice@example.com"})

        await asyncio.gather(*(produce() for _ in range(CALLERS)))
        assert (await queue.stats()).queued == amount.drained // CALLERS * CALLERS
        sizes = storage.sizes
    # So many commits, of one job of each caller, until a thousand wait.
    first, second_half = sizes[SHALLOW // CALLERS], sizes[len(sizes) // 2 :]
    name = f"bytes a commit while {SHALLOW:,} to {amount.drained:,} jobs come one by one"
    return Finding(name, first, sum(second_half) / len(second_half), most=1.5)


async def _opening(folder: Path) -> Finding:
    """How many objects are read until the first job of a queue has been handed out."""
    async with _counted(folder / "shallow.json") as (queue, few):
        await queue.dequeue()
    async with _counted(folder / "deep.json") as (queue, many):
        await queue.dequeue()
    return Finding("objects read until the first job", few.reads, many.reads, most=4)


async def _drains(folder: Path, amount: Amount) -> Finding:
    """Empty queues by dequeue(batch_size=100) + ack_many: short ones many times, a long one."""
    rates = []
    for turn in range(max(1, amount.turns * 3)):
        path = folder / f"drain-{turn}.json"
        await _load(path, SHALLOW)
        rates.append(await _drain(path, SHALLOW))
    await _load(folder / "drain.json", amount.drained)
    deep = await _drain(folder / "drain.json", amount.drained)
    return Finding(
        f"jobs a second when {SHALLOW:,} or {amount.drained:,} are drained", median(rates), deep, least=0.7
    )


async def _drain(path: Path, jobs: int) -> float:
    async with BrokerQueue(LocalFileSystemStorage(path)) as q:
        await q.stats()
        started_s = time.perf_counter()
        for _ in range(jobs // BATCH):
            claimed = await q.dequeue(batch_size=BATCH)
            assert len(claimed) == BATCH
            await q.ack_many(claimed)
        took_s = time.perf_counter() - started_s
        assert (await q.stats()).completed_total == jobs
    return jobs / took_s


class CountingStorage(LocalFileSystemStorage):
    """Counts what is read, and the bytes of each write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[int] = []
        self.reads = 0
        read_object = self.objects.read

        async def read(name: str) -> bytes:
            self.reads += 1
            return await read_object(name)

        self.objects.read = read  # type: ignore[method-assign]

    async def read(self) -> tuple[bytes, str | None]:
        self.reads += 1
        return await super().read()

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        self.sizes.append(len(content) if isinstance(content, bytes) else sum(map(len, content)))
        return await super().write(content, if_match)


@asynccontextmanager
async def _counted(path: Path) -> AsyncIterator[tuple[BrokerQueue, CountingStorage]]:
    storage = CountingStorage(path)
    async with BrokerQueue(storage) as queue:
        yield queue, storage


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_load(Path(sys.argv[1]), int(sys.argv[2])))))
