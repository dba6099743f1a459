"""Claims: what the holder of a job says, and what becomes of a job whose holder says nothing."""

from datetime import datetime

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus
from bucketq.duration import later
from bucketq.errors import ClaimLostError, JobCancelledError, JobNotFoundError
from bucketq.expiry import is_expired, timed_out
from bucketq.job import STALE, Attempt, Claim, Job, JobStatus, Outcome
from bucketq.state.endings import WithEndings, time_of_claim

# Looking a member up in its class is slow.
_COMPLETED = FinishedStatus.COMPLETED
_QUEUED = JobStatus.QUEUED
_TICK_S = 1e-6
_HISTORY_MAX = 8
_HISTORY_ERROR_MAX = 500


class WithClaims(WithEndings):
    """How attempts go on, and end."""

    def ack(self, claim: Claim, now: datetime, result: bytes = b"") -> None:
        """The work is done: the job leaves the queue. `result` is JSON, for the archive."""
        job = self._held(claim)
        self._remove(job)
        self._finish(job, _COMPLETED, now, None, result)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)
        self.completed_total += 1
        if self.kept_keys:
            self.kept_keys.prune(now)
        if job.key is not None and job.key_for_s:
            self.kept_keys.keep(job.key, job.id, later(now, job.key_for_s))

    def nack(
        self,
        claim: Claim,
        error: str | None,
        now: datetime,
        retry_at: datetime | None = None,
        trace: str | None = None,
    ) -> Job:
        """The work failed: back to its place in line, at once or later, or dead if no attempt is left."""
        job = self._held(claim)
        attempt = _attempt(job, now, Outcome.FAILED, error, trace)
        if job.failures >= job.max_attempts or is_expired(job, retry_at or now):
            return self._end_attempt(job, attempt, error, JobStatus.DEAD)
        if retry_at is None or retry_at <= now:
            return self._end_attempt(job, attempt, error, _QUEUED)
        return self._end_attempt(replace(job, run_at=retry_at), attempt, error, JobStatus.SCHEDULED)

    def bury(self, claim: Claim, error: str, now: datetime, trace: str | None = None) -> Job:
        """The job can never succeed: dead, whatever attempts are left."""
        job = self._held(claim)
        attempt = _attempt(job, now, Outcome.FAILED, error, trace)
        return self._end_attempt(job, attempt, error, JobStatus.DEAD)

    def heartbeat(
        self, claim: Claim, now: datetime, progress: float | None = None, note: str | None = None
    ) -> None:
        """The worker lives. The stamp always grows, so that a change shows on any clock."""
        job = self._held(claim)
        if job.is_cancelled:
            raise JobCancelledError(job.id)
        previous = job.heartbeat_at
        beaten_at = now if previous is None or now > previous else later(previous, _TICK_S)
        beaten = replace(job, heartbeat_at=beaten_at)
        if progress is not None or note is not None:
            progress = job.progress if progress is None else progress
            beaten = replace(beaten, progress=progress, note=job.note if note is None else note)
        self._put(beaten)

    def requeue_stale(self, claim: Claim, now: datetime) -> Job:
        """The worker fell silent. The job may be to blame, so it is not given out without end."""
        job = self._held(claim)
        job = replace(job, crashes=job.crashes + 1)
        attempt = _attempt(job, now, Outcome.STALE, STALE)
        if job.crashes < job.max_crashes and not is_expired(job, now):
            return self._end_attempt(job, attempt, STALE, _QUEUED)
        return self._end_attempt(job, attempt, STALE, JobStatus.DEAD)

    def time_out(self, claim: Claim, now: datetime) -> Job:
        """The attempt has taken longer than its job allows: it failed, whatever its worker is doing."""
        job = self._held(claim)
        error = timed_out(job)
        attempt = _attempt(job, now, Outcome.TIMED_OUT, error)
        is_last = job.failures >= job.max_attempts or is_expired(job, now)
        return self._end_attempt(job, attempt, error, JobStatus.DEAD if is_last else _QUEUED)

    def release(self, claim: Claim, left_at: datetime | None = None) -> None:
        """Undo a claim: it costs no attempt. Its worker left, or (without a time) never heard of it."""
        job = self._held(claim)
        if job.is_cancelled:
            self._end_cancelled(job, left_at or time_of_claim(job), None)
            return
        if left_at is not None:
            job = replace(job, history=_with(job.history, _attempt(job, left_at, Outcome.RELEASED, None)))
        self._put(self._back_in_line(_unclaimed(replace(job, attempts=job.attempts - 1), _QUEUED, job.error)))

    def _held(self, claim: Claim) -> Job:
        job = self._table.get(claim.job_id)
        if job is None and self.backlog.may_hold(claim.job_id):
            raise ClaimLostError(claim.job_id, "it waits, is finished, or runs as one of a whole segment")
        if job is None:
            raise JobNotFoundError(claim.job_id)
        if job.status is not JobStatus.IN_PROGRESS:
            raise ClaimLostError(job.id, f"it is {job.status.value}, not in progress")
        if claim.token is not None and claim.token != job.token:
            raise ClaimLostError(job.id, "another worker holds it now")
        return job

    def _end_attempt(self, job: Job, attempt: Attempt, error: str | None, status: JobStatus) -> Job:
        if job.is_cancelled:
            return self._end_cancelled(job, attempt.ended_at, error)
        ended = replace(_unclaimed(job, status, error), history=_with(job.history, attempt))
        ended = self._back_in_line(ended)
        self._put(ended)
        if status is JobStatus.DEAD:
            self.dead_total += 1
            self._finish(job, FinishedStatus.DEAD, attempt.ended_at, error)
        else:
            self.retries += 1
        return ended

    def _end_cancelled(self, job: Job, now: datetime, error: str | None) -> Job:
        self._remove(job)
        self._give_up(job, FinishedStatus.CANCELLED, now, error)
        return _unclaimed(job, _QUEUED, error)


def _unclaimed(job: Job, status: JobStatus, error: str | None) -> Job:
    return replace(
        job,
        status=status,
        error=error,
        token=None,
        worker=None,
        claimed_at=None,
        heartbeat_at=None,
        progress=None,
        note=None,
    )


def _attempt(
    job: Job, now: datetime, outcome: Outcome, error: str | None, trace: str | None = None
) -> Attempt:
    claimed_at = time_of_claim(job)
    return Attempt(
        claimed_at=claimed_at,
        ended_at=max(now, claimed_at),
        outcome=outcome,
        worker=job.worker,
        # It is rewritten with every commit, so the history keeps the beginning only.
        error=error and error[:_HISTORY_ERROR_MAX],
        trace=trace,
    )


def _with(history: tuple[Attempt, ...], attempt: Attempt) -> tuple[Attempt, ...]:
    return (*history[:1], *history[1:][-_HISTORY_MAX:], attempt)
