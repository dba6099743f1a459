"""Brokers: what it costs to reach a queue through one, in a process of its own.

The embedded queue and the remote one take turns with the same callers, and so do the three ways to
a broker. What one caller waits longer is the difference of two medians. Idle workers are counted by
the CPU that the broker and this process, the client, have used.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import bucketq
from bench.finding import Finding
from bucketq import Queue

BEAT_S = 3.0
WAYS = ("grpc", "http", "ws")


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    callers: int = 1000
    callers_by_way: int = 100
    rounds: int = 10
    turns: int = 5
    single: int = 300
    idle_s: float = 60.0

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(callers=50, callers_by_way=10, rounds=2, turns=1, single=5, idle_s=3.5)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what brokers cost."""
    return asyncio.run(_measure(folder, amount))


async def _measure(folder: Path, amount: Amount) -> list[Finding]:
    callers = f"{amount.callers:,} callers"
    findings = []
    for place, url in (("in memory", "memory://"), ("local file", f"file://{folder}/queue.json")):
        async with _both(url) as (embedded, remote):
            rates: tuple[list[float], list[float]] = [], []
            for _ in range(amount.turns):
                rates[0].append(await _throughput(embedded, amount))
                rates[1].append(await _throughput(remote, amount))
            ratio = median(there / here for here, there in zip(*rates, strict=True))
            here = median(rates[0])
            name = f"operations a second, {callers}, {place}, embedded and remote"
            findings.append(Finding(name, here, here * ratio, least=0.40))
            added_ms = (await _latency_s(remote, amount) - await _latency_s(embedded, amount)) * 1000
            findings.append(Finding(f"2 ms, and what one caller waits longer, {place}", 2, added_ms, most=1))
    findings += await _ways(f"file://{folder}/ways.json", amount)
    findings += await _idle(f"file://{folder}/idle.json", amount)
    return findings


async def _ways(url: str, amount: Amount) -> list[Finding]:
    """Enqueues by gRPC, HTTP and WebSocket, through one broker, in turns."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with running_broker(url) as (address, http, _):
        for turn in range(amount.turns):
            # Another one first each time: the queue grows.
            for way in (*WAYS, *WAYS)[turn % len(WAYS) :][: len(WAYS)]:
                async with bucketq.connect(f"{way}://{address if way == 'grpc' else http}") as q:
                    await q.stats()
                    rates[way].append(await _enqueue_rate(q, amount))
    by_grpc = median(rates["grpc"])
    return [
        Finding(
            f"enqueues a second, {amount.callers_by_way} callers, by gRPC and by {name}",
            by_grpc,
            by_grpc * median(there / here for here, there in zip(rates["grpc"], rates[way], strict=True)),
            least=0.5,
        )
        for way, name in (("http", "HTTP"), ("ws", "WebSocket"))
    ]


async def _enqueue_rate(q: Queue, amount: Amount) -> float:
    async def call(number: int) -> None:
        for _ in range(5 * amount.rounds):
            await q.enqueue("mail", {"number": number, "to": "alice@example.com"})

    started_s = time.perf_counter()
    await asyncio.gather(*map(call, range(amount.callers_by_way)))
    return 5 * amount.rounds * amount.callers_by_way / (time.perf_counter() - started_s)


async def _throughput(q: Queue, amount: Amount) -> float:
    async def call(number: int) -> None:
        entrypoint = f"mail-{number % 10}"
        for _ in range(amount.rounds):
            await q.enqueue(entrypoint, {"number": number, "to": "alice@example.com"})
            for job in await q.dequeue(entrypoint):
                await q.ack(job)

    started_s = time.perf_counter()
    await asyncio.gather(*map(call, range(amount.callers)))
    return 3 * amount.callers * amount.rounds / (time.perf_counter() - started_s)


async def _latency_s(q: Queue, amount: Amount) -> float:
    times = []
    for _ in range(amount.single):
        started_s = time.perf_counter()
        await q.enqueue("single", b"{}")
        times.append(time.perf_counter() - started_s)
    return median(times)


async def _idle(url: str, amount: Amount) -> list[Finding]:
    with running_broker(url) as (address, _, process):
        async with bucketq.connect(f"grpc://{address}") as q:
            await q.stats()
            waiting = [asyncio.create_task(q.dequeue(wait=3600)) for _ in range(amount.callers)]
            await asyncio.sleep(2)
            before = cpu_s(process.pid), time.process_time(), (await q.read_state()).version
            await asyncio.sleep(amount.idle_s)
            after = cpu_s(process.pid), time.process_time(), (await q.read_state()).version
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
    broker, client = (100 * (after[i] - before[i]) / amount.idle_s for i in (0, 1))
    workers = f"{amount.callers:,} idle workers"
    return [
        Finding(f"5% of a core, and what a broker with {workers} uses", 5, broker, most=1),
        Finding(f"5% of a core, and what their own process uses, {workers}", 5, client, most=1),
        Finding(
            "commits meanwhile: heartbeats, and all",
            amount.idle_s / BEAT_S + 1,
            after[2] - before[2],
            most=1,
        ),
    ]


@asynccontextmanager
async def _both(url: str) -> AsyncIterator[tuple[Queue, Queue]]:
    """The same kind of queue twice: embedded, and through a broker."""
    with running_broker(url.replace("queue.json", "remote.json")) as (address, _, _):
        async with bucketq.connect(url) as embedded, bucketq.connect(f"grpc://{address}") as remote:
            yield embedded, remote


@contextmanager
def running_broker(url: str, *more: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """A broker in a process of its own, and its addresses for gRPC and for HTTP."""
    command = [sys.executable, "-m", "bucketq", "serve", url]
    options = ["--grpc-port", "0", "--http-port", "0", "--log-format", "json", *more]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            log = ""
            for line in process.stderr:
                log += json.loads(line)["message"] + "\n"
                leads = re.search(r"leading, at (\S+)", log)
                serves = re.search(r"and at http://(\S+)", log)
                if leads and serves:
                    break
            else:
                raise RuntimeError("the broker did not start")
            yield leads[1], serves[1], process
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    """How much CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
