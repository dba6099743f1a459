"""News: what happened, line by line, as the tour tells it and as queue.json shows it."""

import time
from collections.abc import Callable, Iterator

from bucketq.job import Attempt, Job, JobStatus, Outcome
from bucketq.state import QueueState
from bucketq.words import first_line

NameOf = Callable[[str | None], str]


class News:
    """Lines with the second in which they were told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._began_s = time.monotonic()
        # How many attempts of a job have been told of.
        self._told: dict[str, int] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began_s

    def tell(self, what: str) -> None:
        """Add a line."""
        self.lines.append(f"{self.elapsed_s:5.1f} s  {what}")

    def follow(self, state: QueueState, name_of: NameOf) -> None:
        """Tell of the attempts that went wrong since the last time; `name_of` gives a worker's name."""
        for job in state.jobs:
            for attempt in job.history[self._told.get(job.id, 0) :]:
                self.tell("; ".join(_sentences(job, attempt, name_of)))
            self._told[job.id] = len(job.history)


def _sentences(job: Job, attempt: Attempt, name_of: NameOf) -> Iterator[str]:
    if attempt.outcome is Outcome.STALE:
        yield f"{called(job)} is taken over from {name_of(attempt.worker)}, which is silent"
    else:
        yield f"{called(job)} failed: {first_line(attempt.error)}"
    if job.status is JobStatus.DEAD and attempt == job.history[-1]:
        yield f"it is dead after {job.attempts} attempts"


def called(job: Job) -> str:
    """A job as people call it."""
    return f"{job.entrypoint} {job.json()['number']}"
