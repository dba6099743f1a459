"""Dead: the dead letters of a queue by what they died of, so that one decision is enough for many."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from bucketq.job import Job
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
    """The dead jobs that were chosen, the newest first, and how many were looked at; in groups too."""

    jobs: list[Job]
    groups: list[DeadGroup]
    looked: int
    # Whether none was left out.
    is_all: bool

    def matching(self, entrypoint: str, error: str) -> int:
        """How many have this text in their error: more than its group, if others have it in theirs too."""
        return sum(job.entrypoint == entrypoint and error in (job.error or "") for job in self.jobs)


async def look_at_dead(queue: Queue, entrypoint: str | None = None, error: str | None = None) -> DeadLook:
    """The dead jobs of an entrypoint, and with a text in their error, grouped; the largest group first."""
    looked: list[Job] = []
    is_all = True
    async for job in queue.dead(entrypoint):
        if len(looked) == LOOKED_MAX:
            is_all = False
            break
        looked.append(job)
    chosen = [job for job in looked if error is None or error in (job.error or "")]
    newest_first = sorted(chosen, key=concerned_since, reverse=True)
    return DeadLook(newest_first, _grouped(newest_first), len(looked), is_all)


def _grouped(jobs: Iterable[Job]) -> list[DeadGroup]:
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.entrypoint, first_line(job.error)), []).append(job)
    found = [DeadGroup(entrypoint, error, len(dead), dead[0]) for (entrypoint, error), dead in groups.items()]
    return sorted(found, key=lambda group: (-group.jobs, group.entrypoint, group.error))
