"""The dashboard: how long the data of a page takes when a thousand jobs wait and when a million do, and what
ten open dashboards cost a broker.

The two queues take turns, and so do a broker with dashboards open and one without, so that whatever else the
machine does slows both. What browsers would do is done by sockets in a process of their own, on these cores:
so the throughput that counts is that of a second of the broker's CPU.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import bucketq
from bench.brokers import cpu_s, running_broker
from bench.deep import SHALLOW
from bench.finding import Finding
from bucketq import BrokerQueue, DirectQueue, LocalFileSystemStorage, Queue
from bucketq.archive import Archive
from bucketq.clock import SystemClock
from bucketq.dashboard.rows import dead_row, entrypoint_row, job_row, running_rows, schedule_row, worker_row
from bucketq.listing import LOOKED_MAX
from bucketq.live.dead import look_at_dead
from bucketq.live.finding import fetch_payload, find_job
from bucketq.live.look import Look, Looker
from bucketq.live.rows import entrypoint_rows, worker_rows

PAGE = 50
SEARCH_WITHIN_S = 1.0


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    waiting: int = 1_000_000
    looks: int = 30
    dashboards: int = 10
    callers: int = 100
    rounds: int = 120
    turns: int = 7

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(waiting=12_000, looks=2, dashboards=2, callers=10, rounds=2, turns=1)


@dataclass(frozen=True)
class Shown:
    """A queue, the last look at it, and a job and a page far back in it."""

    storage: LocalFileSystemStorage
    queue: Queue
    look: Look
    job_id: str
    far: str


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what pages and open dashboards cost."""
    findings = asyncio.run(_measure_pages(folder, amount))
    return findings + asyncio.run(_measure_open(folder, amount))


async def _measure_pages(folder: Path, amount: Amount) -> list[Finding]:
    shallow = await _filled(folder / "shallow.json", SHALLOW)
    deep = await _filled(folder / "deep.json", amount.waiting)
    findings = []
    for name, draw in _PAGES.items():
        took = [(await _seconds(draw, shallow), await _seconds(draw, deep)) for _ in range(amount.looks)]
        few, many = (median(column) for column in zip(*took, strict=True))
        told = f"milliseconds of {name}, {SHALLOW:,} and {amount.waiting:,} waiting"
        findings.append(Finding(told, few * 1000, many * 1000, most=2.0))
    searched = await _seconds(_search, deep)
    told = f"{SEARCH_WITHIN_S:g}, and seconds of a search through {LOOKED_MAX:,} jobs in vain"
    return [*findings, Finding(told, SEARCH_WITHIN_S, searched, most=1.0)]


async def _filled(path: Path, waiting: int) -> Shown:
    """A queue with a few jobs of every kind, and many that wait."""
    async with BrokerQueue(LocalFileSystemStorage(path)) as queue:
        await queue.schedule("hourly", "report", every=3600)
        await queue.enqueue_many("resize", range(20), max_attempts=1)
        for job in await queue.dequeue("resize", batch_size=20):
            await (queue.ack(job) if job.json() % 2 else queue.nack(job, "ConnectionError: refused"))
        payloads = ({"to": f"user-{number}@example.com"} for number in range(waiting))
        ids = await queue.enqueue_many("send_email", payloads)
        await queue.dequeue("send_email", batch_size=20, worker="web-1:1")
        far = await queue.find(ids[waiting * 9 // 10])
        assert far is not None
    storage = LocalFileSystemStorage(path)
    look = await Looker(storage, SystemClock()).look()
    return Shown(storage, DirectQueue(storage), look, far.id, f"1.0.0.{far.sequence}")


async def _entrypoints(shown: Shown) -> None:
    [entrypoint_row(row, is_queue_paused=False) for row in entrypoint_rows(shown.look)]


async def _workers(shown: Shown) -> None:
    [worker_row(row) for row in worker_rows(shown.look)]
    running_rows(shown.look, None, PAGE)


async def _schedules(shown: Shown) -> None:
    [schedule_row(one, shown.look.at) for one in shown.look.state.schedules]


async def _jobs(shown: Shown) -> None:
    page = await shown.queue.page(size=PAGE)
    [job_row(job, shown.look.at) for job in page.jobs]


async def _jobs_far_back(shown: Shown) -> None:
    page = await shown.queue.page(shown.far, size=PAGE)
    [job_row(job, shown.look.at) for job in page.jobs]


async def _job(shown: Shown) -> None:
    job = await find_job(shown.queue, shown.job_id)
    assert job is not None
    await fetch_payload(shown.queue, job)


async def _dead(shown: Shown) -> None:
    [dead_row(group, shown.look.at) for group in (await look_at_dead(shown.queue)).groups]


async def _finished(shown: Shown) -> None:
    await Archive(shown.storage).newest(PAGE)


async def _look(shown: Shown) -> None:
    await Looker(shown.storage, SystemClock()).look()


async def _search(shown: Shown) -> None:
    await shown.queue.page(size=PAGE, text="what no job has in it")


_PAGES: dict[str, Callable[[Shown], Awaitable[None]]] = {
    "the look that all pages share": _look,
    "entrypoints": _entrypoints,
    "the first page of jobs": _jobs,
    "a page of jobs far back": _jobs_far_back,
    "one job, far back": _job,
    "finished jobs": _finished,
    "dead letters": _dead,
    "schedules": _schedules,
    "workers": _workers,
}


async def _seconds(draw: Callable[[Shown], Awaitable[None]], shown: Shown) -> float:
    began_s = time.perf_counter()
    await draw(shown)
    return time.perf_counter() - began_s


async def _measure_open(folder: Path, amount: Amount) -> list[Finding]:
    """Operations through a broker, with dashboards open and without, in turns."""
    alone: list[Rates] = []
    watched: list[Rates] = []
    with running_broker(f"file://{folder}/open.json", "--dashboard") as (address, http, process):
        async with bucketq.connect(f"grpc://{address}") as queue:
            await _rates(queue, process.pid, amount)
            for turn in range(amount.turns):
                # The other one first each time: the archive grows.
                for is_watched in (turn % 2 == 0, turn % 2 == 1):
                    with _onlookers(http, amount.dashboards if is_watched else 0):
                        rates = await _rates(queue, process.pid, amount)
                        (watched if is_watched else alone).append(rates)
    told = f"{amount.callers} callers, alone and with {amount.dashboards} dashboards open"
    by_cpu = _shared([one.by_cpu for one in alone], [one.by_cpu for one in watched])
    by_clock = _shared([one.by_clock for one in alone], [one.by_clock for one in watched])
    return [
        Finding(f"operations for a second of the broker's CPU, {told}", *by_cpu, least=0.9),
        Finding(f"operations a second, {told}", *by_clock),
    ]


def _shared(alone: list[float], watched: list[float]) -> tuple[float, float]:
    """The median alone, and what is left of it: of each turn the two are compared."""
    share = median(there / here for here, there in zip(alone, watched, strict=True))
    return median(alone), median(alone) * share


@contextmanager
def _onlookers(http: str, number: int) -> Iterator[None]:
    """So many open dashboards while the block runs, in a process of their own."""
    command = [sys.executable, "-m", "bench.onlookers", http, str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n", "the dashboards did not open"
            yield
            messages, _ = process.communicate()
            assert int(messages) > 0 or not number, "nothing was seen of what happened"
        finally:
            process.kill()


class Rates(NamedTuple):
    """How many operations a broker did, for a second of its CPU, and in a second."""

    by_cpu: float
    by_clock: float


async def _rates(queue: Queue, broker: int, amount: Amount) -> Rates:
    async def call(number: int) -> None:
        entrypoint = f"mail-{number % 10}"
        for _ in range(amount.rounds):
            await queue.enqueue(entrypoint, {"number": number, "to": "alice@example.com"})
            for job in await queue.dequeue(entrypoint):
                await queue.ack(job)

    began_s, began_cpu_s = time.perf_counter(), cpu_s(broker)
    await asyncio.gather(*map(call, range(amount.callers)))
    operations = 3 * amount.callers * amount.rounds
    # A tick of the CPU's clock is a hundredth of a second; a quick look may be over before the next one.
    used_s = max(0.01, cpu_s(broker) - began_cpu_s)
    return Rates(operations / used_s, operations / (time.perf_counter() - began_s))
