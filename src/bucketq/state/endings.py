"""Endings: a job is finished, one way or another, and others hear of it.

    done, dead, cancelled, expired ──▶ the ledger, for the archive
                                  ├──▶ its batch counts one less; after the last one the follower comes
                                  └──▶ those that wait for it come into line, or are cancelled too

All of it in the same commit. Whoever is cancelled so is an ending again, told after this one.
"""

from datetime import datetime

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, encode_archived
from bucketq.dependents import is_cancelled_by, reason_for, without
from bucketq.job import Job, JobStatus
from bucketq.state.backlog import WithBacklog
from bucketq.unique import Holder

# Looking a member up in its class is slow.
_COMPLETED = FinishedStatus.COMPLETED
_IN_PROGRESS = JobStatus.IN_PROGRESS


class WithEndings(WithBacklog):
    """How jobs end."""

    def _finish(
        self, job: Job, status: FinishedStatus, now: datetime, error: str | None, result: bytes = b""
    ) -> None:
        if self.archives:
            # One that ends while it waits is in nobody's hands.
            claimed_at = time_of_claim(job) if job.status is _IN_PROGRESS else None
            since = claimed_at or (job.history[-1].ended_at if job.history else job.created_at)
            finished_at = now if now > since else since
            line = encode_archived(
                job, status, claimed_at, finished_at, error, result, self.settings.archive_payloads
            )
            self.ledger.add(finished_at, line)
            self.size += len(line)
        if job.batch is not None or job.id in self._table.dependents.children:
            self._tell(job, status is _COMPLETED, now)

    def _give_up(self, job: Job, status: FinishedStatus, now: datetime, reason: str | None) -> None:
        """A job that was taken out ends without being done."""
        self.cancelled_total += 1
        self._finish(job, status, now, reason)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)

    def _expire(self, found: Holder, now: datetime) -> None:
        """A job that waits ends because its time is over."""
        job = found.job
        self._take_out(found)
        if job.attempts:
            # It was tried, and what would have been another try comes too late.
            self._put(replace(job, status=JobStatus.DEAD))
            self.dead_total += 1
            self._finish(job, FinishedStatus.DEAD, now, job.error)
        else:
            self._give_up(job, FinishedStatus.EXPIRED, now, job.error)

    def _cancel(self, job: Job, reason: str, now: datetime) -> None:
        """End a job that nobody holds: it is not to be done."""
        self._remove(job)
        self._give_up(job, FinishedStatus.CANCELLED, now, reason)

    def _tell(self, job: Job, succeeded: bool, now: datetime) -> None:
        """Count a finished job out of its batch, and let those know that wait for it."""
        self._news.append((job, succeeded))
        if len(self._news) > 1:
            return  # the first one's teller comes to it: a long chain needs no deep stack
        try:
            while self._news:
                job, succeeded = self._news[0]
                if job.batch is not None:
                    self.batches.count(job, succeeded=succeeded)
                    self.follow_up(job.batch, now)
                for child_id in self._table.dependents.of(job.id):
                    child = self._table.get(child_id)
                    assert child is not None
                    if is_cancelled_by(child, succeeded=succeeded):
                        self._cancel(child, reason_for(job.id), now)
                    else:
                        self._put(self._in_line(without(child, (job.id,), now)))
                self._news.popleft()
        finally:
            self._news.clear()

    def follow_up(self, batch_id: str, now: datetime) -> None:
        """Enqueue the job that follows a batch, if nothing is left of that."""
        batch = self.batches.get(batch_id)
        if batch is not None and batch.then is not None and not batch.left:
            self.batches.follow(batch_id)
            self._add(without(batch.then, (), now))


def time_of_claim(job: Job) -> datetime:
    """When the job was claimed, or about."""
    # Files of jqueue know no time of claiming.
    return job.claimed_at or job.heartbeat_at or job.created_at
