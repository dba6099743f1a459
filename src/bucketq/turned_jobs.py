"""TurnedJobs: how many jobs with turns wait in queue.json, so that turns that are over can be forgotten."""

from collections import Counter
from collections.abc import Iterable

from bucketq.job import Job

# An entrypoint and a priority: what tenants share.
Line = tuple[str, int]


class TurnedJobs:
    """Counts of each line (with None for a tenant), and of each tenant in it.

    `left` are those of which the last job has left, here or elsewhere.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[Line, str | None]] = Counter()
        self.left: set[tuple[Line, str | None]] = set()

    def __contains__(self, of: tuple[Line, str | None]) -> bool:
        return of in self._counts

    def count(self, job: Job, step: int) -> None:
        """Take note that one more, or less, is waiting."""
        line = job.entrypoint, job.priority
        self._change((line, None), step)
        if job.tenant is not None:
            self._change((line, job.tenant), step)

    def look_at(self, lines: Iterable[Line], tenant: str | None = None) -> None:
        """Perhaps the last job of some lines, and of a tenant in them, is gone."""
        for line in lines:
            self.left |= {of for of in ((line, None), (line, tenant)) if of not in self._counts}

    def _change(self, of: tuple[Line, str | None], step: int) -> None:
        self._counts[of] += step
        if not self._counts[of]:
            del self._counts[of]
            self.left.add(of)
