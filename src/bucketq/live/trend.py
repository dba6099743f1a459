"""Trend: how fast a queue has worked lately, and how long its jobs waited and ran.

Rates are differences of the counters of two looks. Times are those of the jobs that began or
ended between them, as far as queue.json still shows these: a sample, where thousands do.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from bucketq.archived_job import ArchivedJob, decode_archived
from bucketq.errors import CorruptStateError
from bucketq.job import Job
from bucketq.live.look import Look

# As many as the widest terminal shows, and a few more.
_CHANGES_MAX = 300
# Figures that jump with each look cannot be read.
_RATE_CHANGES = 5
_TIME_CHANGES = 30
# Decoding all of a very busy queue's would take longer than the look.
_FINISHED_MAX = 500


class Change(NamedTuple):
    """What happened between two looks: how many, in how many seconds, and how long they took."""

    elapsed_s: float = 0.0
    enqueued: int = 0
    completed: int = 0
    waits_s: Sequence[float] = ()
    runs_s: Sequence[float] = ()


class Times(NamedTuple):
    """How long half of some jobs took at most, and 95 of a hundred."""

    median_s: float
    most_s: float


class Trend:
    """The changes of the last looks."""

    def __init__(self) -> None:
        self._last: Look | None = None
        self._changes: deque[Change] = deque(maxlen=_CHANGES_MAX)

    def add(self, look: Look) -> None:
        """Take in the next look."""
        self._changes.append(compare(self._last, look))
        self._last = look

    @property
    def enqueued_per_s(self) -> float:
        """Jobs that were added, a second."""
        return _rate([(change.enqueued, change.elapsed_s) for change in self._latest(_RATE_CHANGES)])

    @property
    def completed_per_s(self) -> float:
        """Jobs that were done, a second."""
        return _rate([(change.completed, change.elapsed_s) for change in self._latest(_RATE_CHANGES)])

    @property
    def waits(self) -> Times | None:
        """How long the jobs had waited that began lately; None if none did."""
        return _times([wait_s for change in self._latest(_TIME_CHANGES) for wait_s in change.waits_s])

    @property
    def runs(self) -> Times | None:
        """How long the attempts took that succeeded, or were the last ones; None if there were none."""
        return _times([run_s for change in self._latest(_TIME_CHANGES) for run_s in change.runs_s])

    def completed_line(self, width: int) -> list[float]:
        """Jobs done a second, look by look, as many as fit."""
        return _line([_rate([(change.completed, change.elapsed_s)]) for change in self._latest(width)], width)

    def waits_line(self, width: int) -> list[float]:
        """The median wait, look by look; 0 where nothing began."""
        return _line([_median(change.waits_s) for change in self._latest(width)], width)

    def runs_line(self, width: int) -> list[float]:
        """The median time of running, look by look; 0 where nothing ended."""
        return _line([_median(change.runs_s) for change in self._latest(width)], width)

    def _latest(self, number: int) -> list[Change]:
        return list(self._changes)[-number:] if number > 0 else []


def compare(before: Look | None, now: Look) -> Change:
    """What happened between two looks. The first one tells only how long things took of late."""
    finished = _newly_finished(before, now)
    held = {} if before is None else {job.id: job.claimed_at for job in before.state.in_progress_jobs()}
    started: list[Job | ArchivedJob] = [*now.state.in_progress_jobs(), *finished]
    change = Change(
        waits_s=[
            _span_s(waiting_since(job), job.claimed_at)
            for job in started
            # One that began before the last look was counted then.
            if job.claimed_at is not None and held.get(job.id) != job.claimed_at
        ],
        runs_s=[_span_s(job.claimed_at, job.finished_at) for job in finished if job.claimed_at is not None],
    )
    if before is None:
        return change
    was, stats = before.state.stats, now.state.stats
    return change._replace(
        elapsed_s=now.at_s - before.at_s,
        # A queue that was replaced by another one begins to count anew.
        enqueued=max(0, stats.enqueued_total - was.enqueued_total),
        completed=max(0, stats.completed_total - was.completed_total),
    )


def waiting_since(job: Job | ArchivedJob) -> datetime:
    """Since when a job stands in line, or stood before its last attempt: enqueued, due, or given back."""
    earlier = job.history if isinstance(job, Job) else job.attempts[: -1 if job.claimed_at else None]
    moments = [job.created_at, job.run_at, earlier[-1].ended_at if earlier else None]
    return max(moment for moment in moments if moment is not None)


def _newly_finished(before: Look | None, now: Look) -> list[ArchivedJob]:
    # By their lines: those know nothing of clocks that differ.
    seen = set() if before is None else {entry.line for entry in before.state.ledger.finished}
    lines = [entry.line for entry in now.state.ledger.finished if entry.line not in seen]
    finished = []
    for line in lines[-_FINISHED_MAX:]:
        # Those of a newer bucketq are for it to read; the queue works all the same.
        with suppress(CorruptStateError):
            finished.append(decode_archived(line))
    return finished


def _span_s(began_at: datetime, ended_at: datetime) -> float:
    # They may be the times of two clocks.
    return max(0.0, (ended_at - began_at).total_seconds())


def _rate(counts: Sequence[tuple[int, float]]) -> float:
    elapsed_s = sum(elapsed_s for _, elapsed_s in counts)
    return sum(count for count, _ in counts) / elapsed_s if elapsed_s > 0 else 0.0


def _times(times_s: Sequence[float]) -> Times | None:
    if not times_s:
        return None
    ordered = sorted(times_s)
    return Times(_median(ordered), ordered[int(0.95 * (len(ordered) - 1) + 0.5)])


def _median(times_s: Sequence[float]) -> float:
    return sorted(times_s)[(len(times_s) - 1) // 2] if times_s else 0.0


def _line(values: list[float], width: int) -> list[float]:
    """The newest value stands at the right, whatever there is of earlier ones."""
    return [0.0] * (width - len(values)) + values
