"""The command line: how long a look at a queue takes when a thousand jobs wait, and when a million do.

Real processes, from their start to their end. The two queues take turns, so that whatever else the
machine does slows both.
"""

import asyncio
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.deep import SHALLOW, Finding
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
    folder = folder / "commands"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        shallow = _looks(folder / "shallow.json", SHALLOW)
        deep = _looks(folder / "deep.json", amount.waiting)
        findings = [_compare(name, shallow[name], deep[name], amount) for name in shallow]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    helped = median(_seconds(["--help"]) for _ in range(amount.turns))
    return [
        *findings,
        Finding(f"{HELP_WITHIN_S}, and seconds of `bucketq --help`", HELP_WITHIN_S, helped, most=1.0),
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


def _compare(name: str, shallow: list[str], deep: list[str], amount: Amount) -> Finding:
    took = [(_seconds(shallow), _seconds(deep)) for _ in range(amount.turns)]
    few, many = (median(column) for column in zip(*took, strict=True))
    return Finding(
        f"seconds of `bucketq {name}, {SHALLOW:,} and {amount.waiting:,} waiting", few, many, most=2.0
    )


def _seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "bucketq", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began
