"""Rivals: processes that write to one object without a broker, on an S3 server 60 ms away.

Each process has ten callers that enqueue without rest. All begin at the same moment, and what they have
completed later is counted when all have had time to begin.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bucketq
from bench.finding import Finding
from bench.side import ROOT
from bucketq.storage import open_storage
from tests.contract.servers import BUCKET, seaweedfs

ROUND_TRIP_MS = 60


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    processes: tuple[int, ...] = (1, 2, 4, 8, 16)
    callers: int = 10
    warm_s: float = 5.0
    seconds: float = 20.0

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(processes=(1, 2), callers=2, warm_s=0.5, seconds=2.0)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what several processes get, and how evenly they share it."""
    findings, alone_per_s, round_trip_s = [], 0.0, 0.0
    with seaweedfs(folder) as server, _relay(server.endpoint_url) as endpoint_url:
        options = {**server.options, "endpoint_url": endpoint_url}
        for count in amount.processes:
            took = _compete(count, f"s3://{BUCKET}/rivals-{count}.json", options, amount)
            counts, every = [len(one) for one in took], sorted(one for each in took for one in each)
            per_s = sum(counts) / amount.seconds
            alone_per_s = alone_per_s or per_s
            # As it is with the server's own time.
            round_trip_s = round_trip_s or every[len(every) // 2]
            name = f"{count} process{'es' if count > 1 else ''}"
            p99_s = every[int(0.99 * (len(every) - 1))]
            findings += [
                Finding(f"enqueues a second, one process and {name}", alone_per_s, per_s, least=1),
                Finding(
                    f"enqueues of the busiest and the least busy of {name}",
                    max(counts),
                    min(counts),
                    least=0.5,
                ),
                Finding(
                    f"{count} round trips, and p99 of an enqueue, s", count * round_trip_s, p99_s, most=4.5
                ),
            ]
    return findings


def _compete(count: int, url: str, options: dict[str, object], amount: Amount) -> list[list[float]]:
    """The seconds that each call of each process took."""
    task = {"url": url, "options": options, "callers": amount.callers}
    # Python starts slowly where sixteen of it start on two cores.
    task |= {"begins_at": time.time() + 3 + count, "warm_s": amount.warm_s, "seconds": amount.seconds}
    command = [sys.executable, "-m", "bench.rivals", json.dumps(task)]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return [json.loads(process.communicate()[0]) for process in processes]


@contextmanager
def _relay(endpoint_url: str) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.relay", endpoint_url.rpartition(":")[2], str(ROUND_TRIP_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def _enqueue(
    url: str, options: dict[str, object], callers: int, begins_at: float, warm_s: float, seconds: float
) -> list[float]:
    took: list[float] = []
    async with bucketq.BrokerQueue(open_storage(url, **options)) as queue:
        await queue.stats()
        await asyncio.sleep(begins_at - time.time())
        counts_s = time.perf_counter() + warm_s

        async def call() -> None:
            while (began_s := time.perf_counter()) < counts_s + seconds:
                try:
                    await queue.enqueue("mail", b"{}")
                except bucketq.CASConflictError:
                    continue
                if counts_s <= (ended_s := time.perf_counter()) < counts_s + seconds:
                    took.append(ended_s - began_s)

        await asyncio.gather(*(call() for _ in range(callers)))
    return took


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_enqueue(**json.loads(sys.argv[1])))))
