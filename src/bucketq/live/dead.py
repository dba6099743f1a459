"""Dead: the dead letters of a queue by what they died of, so that one decision is enough for many."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from bucketq.job import Job, JobStatus
from bucketq.live.rows import concerned_since
from bucketq.queue import Queue
from bucketq.words import first_line

# Beyond them those are told that were looked at, and that there are more.
LOOKED_MAX = 5_000


class DeadGroup(NamedTuple):
    """Dead jobs of an entrypoint with the same first line of their error, and the newest of them."""

    entrypoint: str
    error: str
    jobs: int
    newest: Job

    @property
    def since(self) -> datetime:
        """When the newest of them died."""
        return concerned_since(self.newest)


class DeadLook(NamedTuple):
    """The groups of the dead jobs that were looked at, how many those are, and whether that is all."""

    groups: list[DeadGroup]
    looked: int
    is_all: bool


async def look_at_dead(queue: Queue, entrypoint: str | None = None, error: str | None = None) -> DeadLook:
    """The dead jobs of an entrypoint, and with a text in their error, grouped; the largest group first."""
    chosen: list[Job] = []
    looked = 0
    async for job in queue.dead(entrypoint):
        if looked == LOOKED_MAX:
            return DeadLook(group_dead(chosen), looked, is_all=False)
        looked += 1
        if error is None or error in (job.error or ""):
            chosen.append(job)
    return DeadLook(group_dead(chosen), looked, is_all=True)


def group_dead(jobs: Iterable[Job]) -> list[DeadGroup]:
    """Dead jobs by entrypoint and error, the largest group first."""
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.status is JobStatus.DEAD:
            groups.setdefault((job.entrypoint, first_line(job.error)), []).append(job)
    found = [
        DeadGroup(entrypoint, error, len(dead), max(dead, key=concerned_since))
        for (entrypoint, error), dead in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.jobs, group.entrypoint, group.error))
