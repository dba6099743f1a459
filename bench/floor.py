"""The floor: what the file system alone takes for a queue's commits.

A durable commit to a file is write, fsync, rename, fsync of the folder. No queue that
answers only after its commit is safe can be faster than those calls, so this is what a
file workload is bounded by. The sizes are those of the commits that bucketq really makes.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.workloads import Workload, fill, play
from bucketq import BrokerQueue, InMemoryStorage

SIZES_BYTES = (1_000, 10_000, 100_000, 500_000, 1_000_000, 2_000_000, 5_000_000)


def commit_sizes(workloads: list[Workload], one_file: bool) -> list[list[int]]:
    """The size in bytes of every timed commit of each workload, found by playing it in memory."""
    storage = _NotingStorage()
    found = []
    for workload in workloads:
        storage = storage if one_file else _NotingStorage()
        asyncio.run(_note(storage, workload))
        found.append(storage.sizes.copy())
    return found


def floor_s(sizes: list[int], path: Path) -> float:
    """The seconds that bare durable writes of these sizes take."""
    content = memoryview(b"x" * max(sizes, default=0))
    started = perf_counter()
    for size in sizes:
        _replace(path, content[:size])
    return perf_counter() - started


def floor_by_size(path: Path, writes: int) -> dict[int, float]:
    """The median seconds of one bare durable write, for some sizes of the file."""
    return {size: median(floor_s([size], path) for _ in range(writes)) for size in SIZES_BYTES}


async def _note(storage: "_NotingStorage", workload: Workload) -> None:
    async with BrokerQueue(storage) as queue:
        await fill(queue, workload)
        storage.sizes.clear()
        await play(queue, workload)


class _NotingStorage(InMemoryStorage):
    """Memory that notes how large each write was."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        self.sizes.append(len(content) if isinstance(content, bytes) else sum(map(len, content)))
        return await super().write(content, if_match)


def _replace(path: Path, content: memoryview) -> None:
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    while content:
        content = content[os.write(fd, content) :]
    os.fsync(fd)
    os.close(fd)
    os.rename(temporary, path)
    fd = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)
