"""Rows: entrypoints, workers and jobs as tables show them, drawn from one look."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from bucketq.job import Job, JobStatus, time_within
from bucketq.limits import Limit
from bucketq.listing import mentions
from bucketq.live.look import Look
from bucketq.live.trend import waiting_since

# The work that is under way comes first, then what needs somebody.
ORDER = (
    JobStatus.IN_PROGRESS,
    JobStatus.DEAD,
    JobStatus.QUEUED,
    JobStatus.SCHEDULED,
    JobStatus.BLOCKED,
)

# A worker that has not said who it is.
NOBODY = "(no name)"


class EntrypointRow(NamedTuple):
    """How the jobs of one entrypoint stand, whether it is paused by name, and its limit.

    How long the oldest one waits is None if none does, or that is not known.
    """

    name: str
    queued: int
    running: int
    dead: int
    oldest_wait_s: float | None
    is_paused: bool
    scheduled: int = 0
    blocked: int = 0
    limit: Limit | None = None


class WorkerRow(NamedTuple):
    """Whoever holds jobs, how many, and how long ago it was heard of."""

    name: str
    jobs: int
    silent_s: float


class Filter(NamedTuple):
    """Which jobs are wanted: of a status, an entrypoint, a worker; with a text in what they tell."""

    text: str = ""
    status: JobStatus | None = None
    entrypoint: str | None = None
    worker: str | None = None

    def matches(self, job: Job) -> bool:
        """Whether a job is wanted.

        >>> from datetime import UTC
        >>> job = Job(id="1", entrypoint="mail", payload=b'{"to":"Ann"}', created_at=datetime.now(UTC))
        >>> Filter("ann").matches(job), Filter("bob").matches(job), Filter(entrypoint="fax").matches(job)
        (True, False, False)
        """
        if self.status not in (None, job.status) or self.entrypoint not in (None, job.entrypoint):
            return False
        if self.worker not in (None, job.worker or NOBODY):
            return False
        return mentions(job, self.text)

    def told(self) -> list[str]:
        """What is wanted, in words.

        >>> Filter("ann", JobStatus.DEAD).told()
        ['dead', "with 'ann'"]
        """
        words = [self.status.value] if self.status else []
        words += [f"of {self.entrypoint}"] if self.entrypoint is not None else []
        words += [f"by {self.worker}"] if self.worker is not None else []
        return [*words, f"with {self.text!r}"] if self.text else words


def entrypoint_rows(look: Look) -> list[EntrypointRow]:
    """The entrypoints with live or dead jobs, a pause or a limit; those that need no look come last."""
    state, limits = look.state, look.state.limits
    counts = state.counts()
    moments = [(job.entrypoint, waiting_since(job)) for job in state.with_status(JobStatus.QUEUED)]
    for segment in state.backlog:
        enqueued_at = time_within(segment.ids)
        if segment.status is JobStatus.QUEUED and enqueued_at is not None:
            moments.append((segment.entrypoint, enqueued_at))
    since: dict[str, datetime] = {}
    for name, moment in moments:
        since[name] = min(moment, since.get(name, look.at))
    rows = [
        EntrypointRow(
            name,
            counts[name, JobStatus.QUEUED],
            counts[name, JobStatus.IN_PROGRESS],
            counts[name, JobStatus.DEAD],
            seconds_since(since[name], look.at) if name in since else None,
            name in limits.paused,
            counts[name, JobStatus.SCHEDULED],
            counts[name, JobStatus.BLOCKED],
            limits.entrypoints.get(name),
        )
        for name in {name for name, _ in counts}.union(limits.paused, limits.entrypoints)
    ]
    return sorted(rows, key=lambda row: (not (row.queued or row.running or row.dead), row.name))


def worker_rows(look: Look) -> list[WorkerRow]:
    """The workers that hold jobs, those with the most first."""
    held: dict[str, list[tuple[int, datetime]]] = {}
    for job in look.state.in_progress_jobs():
        beat_at = job.heartbeat_at or job.claimed_at or job.created_at
        held.setdefault(job.worker or NOBODY, []).append((1, beat_at))
    for segment, hold in look.state.backlog.held().values():
        held.setdefault(hold.worker or NOBODY, []).append((segment.count, hold.heartbeat_at))
    rows = [
        WorkerRow(
            name,
            sum(count for count, _ in beats),
            seconds_since(max(beat_at for _, beat_at in beats), look.at),
        )
        for name, beats in held.items()
    ]
    return sorted(rows, key=lambda row: (-row.jobs, row.name))


def job_rows(look: Look, wanted: Filter) -> list[Job]:
    """The wanted jobs in queue.json itself: those that run, the newest dead, those that come next."""
    found = [job for job in look.state.jobs if wanted.matches(job)]
    return [job for status in ORDER for job in _in_order(found, status)]


def concerned_since(job: Job) -> datetime:
    """Since when a job is what it is: runs, waits, is dead; or when it is due."""
    if job.status is JobStatus.IN_PROGRESS:
        return job.claimed_at or job.created_at
    if job.status is JobStatus.DEAD and job.history:
        return job.history[-1].ended_at
    return waiting_since(job)


def seconds_since(moment: datetime, now: datetime) -> float:
    """How long ago it was; never less than 0, for it may be the time of another clock."""
    return max(0.0, (now - moment).total_seconds())


def _in_order(jobs: Iterable[Job], status: JobStatus) -> list[Job]:
    chosen = [job for job in jobs if job.status is status]
    if status is JobStatus.QUEUED:
        return sorted(chosen, key=lambda job: (job.priority, job.turn, job.sequence))
    return sorted(chosen, key=concerned_since, reverse=status is JobStatus.DEAD)
