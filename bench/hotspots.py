"""Hot spots: one workload of bucketq's under cProfile."""

import asyncio
import cProfile
import pstats
import tempfile
from pathlib import Path

from bench.bound import TARGETS, approach
from bench.suite import SUITE
from bench.workloads import Workload, fill, play
from bucketq import BrokerQueue, InMemoryStorage, LocalFileSystemStorage

_TOP = 25


def profile_names() -> list[str]:
    """What can be profiled, such as "memory/enqueue-1"."""
    return [*_workloads(), *(f"bound/{callers}" for callers in TARGETS)]


def print_profile(name: str, folder: Path) -> None:
    """Run the workload and print where its time went, by function."""
    profile = cProfile.Profile()
    series, _, callers = name.partition("/")
    if series == "bound":
        profile.runcall(asyncio.run, approach(int(callers), latency_s=0.1, rounds=20, repeat=1))
    else:
        with tempfile.TemporaryDirectory(dir=folder) as home:
            path = Path(home) / "queue.json" if series == "file" else None
            asyncio.run(_play(_workloads()[name], path, profile))
    stats = pstats.Stats(profile).strip_dirs()
    stats.sort_stats("tottime").print_stats(_TOP)
    stats.sort_stats("cumulative").print_stats(_TOP)


def _workloads() -> dict[str, Workload]:
    return {
        f"{series.key}/{aim.workload.kind}-{aim.workload.callers}": aim.workload
        for series in SUITE
        if not series.one_file
        for aim in series.aims
    }


async def _play(workload: Workload, path: Path | None, profile: cProfile.Profile) -> None:
    async with BrokerQueue(LocalFileSystemStorage(path) if path else InMemoryStorage()) as queue:
        await fill(queue, workload)
        with profile:
            await play(queue, workload)
