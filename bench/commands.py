"""The command line: how long a look at a queue takes when a thousand jobs wait, and when a million do.

Real processes, from their start to their end. The two queues take turns, so that whatever else the
machine does slows both. On a machine that does much else only the seconds of CPU tell anything.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.deep import SHALLOW
from bench.finding import Finding
from bucketq import BrokerQueue, LocalFileSystemStorage

HELP_WITHIN_S = 0.3


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    waiting: int = 1_000_000
    turns: int = 5

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(waiting=12_000, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what the commands that look at a queue take."""
    shallow = _looks(folder / "shallow.json", SHALLOW)
    deep = _looks(folder / "deep.json", amount.waiting)
    findings = [one for name in shallow for one in _compare(name, shallow[name], deep[name], amount)]
    helped = [_run(["--help"]) for _ in range(amount.turns)]
    told = f"{HELP_WITHIN_S}, and seconds"
    return [
        *findings,
        Finding(f"{told} of `bucketq --help`", HELP_WITHIN_S, median(one.s for one in helped), most=1.0),
        Finding(f"{told} of its CPU", HELP_WITHIN_S, median(one.cpu_s for one in helped), most=1.0),
    ]


def _looks(path: Path, waiting: int) -> dict[str, list[str]]:
    """Fill a queue; return the commands that look at it."""
    first, middle = asyncio.run(_fill(path, waiting))
    url = ["--url", f"file://{path}"]
    return {
        "jobs`": ["jobs", *url],
        "stats`": ["stats", *url],
        "show` of the first job": ["show", first, *url],
        "show` of one in the middle": ["show", middle, *url],
    }


async def _fill(path: Path, waiting: int) -> tuple[str, str]:
    async with BrokerQueue(LocalFileSystemStorage(path)) as queue:
        payloads = ({"to": f"user-{number}@example.com"} for number in range(waiting))
        ids = await queue.enqueue_many("send_email", payloads)
    return ids[0], ids[waiting // 2]


def _compare(name: str, shallow: list[str], deep: list[str], amount: Amount) -> Iterator[Finding]:
    took = [(*_run(shallow), *_run(deep)) for _ in range(amount.turns)]
    few, few_cpu, many, many_cpu = (median(column) for column in zip(*took, strict=True))
    told = f"of `bucketq {name}, {SHALLOW:,} and {amount.waiting:,} waiting"
    yield Finding(f"seconds {told}", few, many, most=2.0)
    yield Finding(f"seconds of CPU {told}", few_cpu, many_cpu, most=2.0)


class Took(NamedTuple):
    """What a process took, until it ended and of the CPU."""

    s: float
    cpu_s: float


def _run(arguments: list[str]) -> Took:
    began = time.perf_counter()
    command = [sys.executable, "-m", "bucketq", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Took(time.perf_counter() - began, used.ru_utime + used.ru_stime)
