"""View: looking at a queue without changing it."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from bucketq.archived_job import beginning_of, kept_payloads
from bucketq.ending import Ending
from bucketq.errors import JobNotFoundError
from bucketq.job import Job, JobStatus, time_within
from bucketq.segment import Segment, due_moment
from bucketq.state.contents import Contents
from bucketq.unique import Holder
from bucketq.wanted import Wanted

# Looking a member up in its class is slow.
_QUEUED = JobStatus.QUEUED


class Stats(NamedTuple):
    """Counts at one version: jobs now in each status, and totals since the beginning.

    `cancelled_total` counts the jobs that ended without being done: cancelled, replaced, expired.
    """

    queued: int
    in_progress: int
    dead: int
    enqueued_total: int
    completed_total: int
    dead_total: int
    scheduled: int = 0
    blocked: int = 0
    cancelled_total: int = 0

    @property
    def live(self) -> int:
        """The jobs that wait or run."""
        return self.queued + self.scheduled + self.blocked + self.in_progress

    @property
    def total(self) -> int:
        """The jobs that there are, with the dead ones."""
        return self.live + self.dead

    @property
    def is_conserved(self) -> bool:
        """Whether enqueued = live + finished: nothing lost, nothing doubled."""
        return (
            self.enqueued_total == self.live + self.completed_total + self.dead_total + self.cancelled_total
        )


class View(Contents):
    """Which jobs there are, how many, where, and what comes next."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job in queue.json itself, in the order of enqueueing."""
        return self.with_status(*JobStatus)

    def with_status(self, *statuses: JobStatus) -> tuple[Job, ...]:
        """Every job of these statuses in queue.json itself, in the order of enqueueing."""
        return self._table.with_status(*statuses)

    def queued_jobs(self, entrypoint: str | None = None) -> tuple[Job, ...]:
        """The waiting jobs in queue.json itself, in the order in which they will be dequeued."""
        return self._table.queued(entrypoint)

    def in_progress_jobs(self) -> tuple[Job, ...]:
        """The jobs that a worker holds, but for those in claimed segments, in the order of enqueueing."""
        return self.with_status(JobStatus.IN_PROGRESS)

    def dead_jobs(self) -> tuple[Job, ...]:
        """The jobs that used up their attempts, in the order of enqueueing."""
        return self.with_status(JobStatus.DEAD)

    def find(self, job_id: str) -> Job | None:
        """The job with this id in queue.json itself, or None; it may still be in the backlog."""
        return self._table.get(job_id)

    def look_up(self, job_id: str) -> Job | Ending | None:
        """A job as it stands, wherever that is, or how it ended; None if it is archived, or never was."""
        if job := self._table.get(job_id) or self.batches.follower(job_id):
            return job
        if line := self.ledger.line_of(beginning_of(job_id)):
            return Ending.of_line(line)
        for part in self.ledger.parts():
            if part.may_hold(job_id) and (line := self.shelf.find_line(part, job_id)):
                return Ending.of_line(line)
        found = (self.shelf.find(segment, job_id) for segment in self.backlog.may_hold(job_id))
        return next((job for job in found if job is not None), None)

    def locate(self, job_id: str, where: str, *, is_dead: bool) -> Holder | list[Segment]:
        """The job in queue.json, or in the segment named `where`; or the segments in which it could be.

        Raises JobNotFoundError if there are none, or it is dead and should not be, or should be and
        is not.
        """
        if (job := self._table.get(job_id) or self.batches.follower(job_id)) is not None:
            if (job.status is JobStatus.DEAD) is not is_dead:
                raise JobNotFoundError(job_id, f"job {job_id} is {job.status.value}")
            return Holder(job)
        held = self.backlog.may_hold(job_id)
        possible = [segment for segment in held if (segment.status is JobStatus.DEAD) is is_dead]
        if not possible:
            raise JobNotFoundError(job_id)
        for segment in possible:
            if segment.name == where and (job := self.shelf.find(segment, job_id)) is not None:
                return Holder(job, segment)
        return possible

    @property
    def touched(self) -> dict[str, int]:
        """The ids of jobs that changed, with their sequence; whoever encodes the state empties it."""
        return self._table.touched

    @property
    def stats(self) -> Stats:
        """The counts, without looking at the jobs."""
        return Stats(
            queued=self.waiting(),
            in_progress=self._count(JobStatus.IN_PROGRESS),
            dead=self._count(JobStatus.DEAD),
            enqueued_total=self.enqueued_total,
            completed_total=self.completed_total,
            dead_total=self.dead_total,
            scheduled=self._count(JobStatus.SCHEDULED),
            blocked=self._table.count(JobStatus.BLOCKED),
            cancelled_total=self.cancelled_total,
        )

    def counts(self) -> Counter[tuple[str, JobStatus]]:
        """How many jobs there are of each entrypoint and status."""
        counts = Counter((job.entrypoint, job.status) for job in self._table)
        for segment in self.backlog:
            counts[segment.entrypoint, segment.status] += segment.count
        return counts

    def waiting(self, wanted: Wanted = None) -> int:
        """How many jobs wait, of some entrypoints or of all, without looking at them."""
        return self._table.ready.count(wanted) + self.backlog.count(_QUEUED, wanted)

    def waits(self) -> dict[str, datetime]:
        """By entrypoint, since when the job waits that does so the longest.

        What is in segments was enqueued then, about, and nobody knows when it came due.
        """
        moments = [
            (job.entrypoint, job.run_at or job.created_at) for job in self._table if job.status is _QUEUED
        ]
        moments += [
            (segment.entrypoint, enqueued_at)
            for segment in self.backlog
            if segment.status is _QUEUED and (enqueued_at := time_within(segment.ids)) is not None
        ]
        waits: dict[str, datetime] = {}
        for entrypoint, moment in moments:
            waits[entrypoint] = min(moment, waits.get(entrypoint, moment))
        return waits

    def _count(self, status: JobStatus) -> int:
        return self._table.count(status) + self.backlog.count(status)

    def next_due(self) -> datetime | None:
        """When the next scheduled job is due, or a schedule's next tick; None if there is none."""
        job, segment = self._table.due.first(), self.backlog.first_scheduled()
        moments = [job.run_at] if job is not None and job.run_at is not None else []
        moments += [self.schedules.next_at] if self.schedules.next_at is not None else []
        return min([*moments, due_moment(segment.first)] if segment else moments, default=None)

    @property
    def live_size(self) -> int:
        """About the bytes of queue.json without what is on its way to the archive."""
        return self.size - self.ledger.size

    def is_conserved(self) -> bool:
        """Whether enqueued = live + finished: nothing lost, nothing doubled."""
        return self.stats.is_conserved

    def object_names(self) -> set[str]:
        """The objects that queue.json itself refers to; segments may refer to more payloads."""
        payloads = {job.payload_object for job in self._table if job.payload_object is not None}
        payloads |= self._on_its_way()
        followers = [batch.then for _, batch in self.batches if batch.then is not None]
        payloads |= {job.payload_object for job in followers if job.payload_object is not None}
        segments = {name for segment in self.backlog for name in segment.objects}
        return payloads | segments | {part.name for part in self.ledger.parts()}

    def _on_its_way(self) -> set[str]:
        """The payloads that the archive has yet to copy."""
        return {payload for payload, _ in kept_payloads(self.ledger.lines())}
