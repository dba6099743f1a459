"""Arrivals: new jobs, with their unique keys, those they wait for, and their batch."""

from datetime import datetime

from bucketq.archived_job import FinishedStatus
from bucketq.dependents import Fates, cancelled_at_once, placed
from bucketq.ending import Ending
from bucketq.errors import ConfigurationError, JobNotFoundError, KeyTakenError
from bucketq.expiry import is_expired
from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.loads import LoadMark
from bucketq.new_job import IfExists
from bucketq.state.endings import WithEndings
from bucketq.unique import Holder, holder_of

# An id in a list has quotes and a comma.
_QUOTES = 3
# What a kept key takes, about.
_KEPT_KEY_BYTES = 80
# Looking a member up in its class is slow.
_IN_PROGRESS = JobStatus.IN_PROGRESS


class WithArrivals(WithEndings):
    """How jobs come into the queue."""

    def enqueue(
        self,
        job: Job,
        if_exists: IfExists = "return",
        fates: Fates | None = None,
        now: datetime | None = None,
    ) -> Job:
        """Put a new job at the end of its priority's line, or aside while it waits for others.

        Where another job has its unique key, that one may be told instead. `fates` tells whether
        those to wait for succeeded that are in the queue no more. Raises ParentsUnknownError for
        others of that kind. What is found out goes there, for the next job. `now` is for a job
        that was not made just now.
        """
        now = now or job.created_at
        if self._table.get(job.id):
            raise ConfigurationError(f"job {job.id} is in the queue already")
        if job.key is not None:
            ended = self.cancelled_total + self.dead_total
            if (other := self._make_way(job, job.key, if_exists, now)) is not None:
                return other
            if fates is not None and ended != self.cancelled_total + self.dead_total:
                # Who made way may have been waited for, and is not open any more.
                fates.open.clear()
        if job.payload_object is not None:
            self._check_payload(job.payload_object)
        self._make_room(line_bytes(job))
        if not job.after:
            return self._add(job)
        known = Fates() if fates is None else fates
        job, reason = placed(job, lambda parent_id: self._fate(parent_id, known), now)
        self._make_room(sum(len(one) + _QUOTES for one in job.after))
        job = self._add(job)
        if reason is not None:
            self._cancel(job, reason, now)
            return cancelled_at_once(job, reason)
        return job

    def begin_batch(self, then: Job, total: int) -> None:
        """So many jobs of a batch will be enqueued; when all are finished, another one follows."""
        if self._table.get(then.id) or self.batches.get(then.id):
            raise ConfigurationError(f"job {then.id} is in the queue already")
        if then.payload_object is not None:
            self._check_payload(then.payload_object)
        self._make_room(line_bytes(then))
        self.batches.begin(then.id, total, then)
        self.changes += 1

    def load(self, name: str, mark: LoadMark) -> None:
        """Note that a part of a bulk load is being enqueued."""
        self.loads = self.loads.remembered(name, mark)
        self.changes += 1

    def _make_way(self, job: Job, key: str, if_exists: IfExists, now: datetime) -> Job | None:
        """Let a job have a unique key; or tell which other one it is that has it."""
        if self.kept_keys:
            self.size -= _KEPT_KEY_BYTES * self.kept_keys.prune(now)
        if (kept := self.kept_keys.get(key, now)) is not None:
            raise KeyTakenError(
                kept.job_id,
                f"the key {key!r} was that of job {kept.job_id}, which is finished; it is kept until"
                f" {kept.until:%Y-%m-%dT%H:%M:%SZ} (key_for)",
            )
        found = self._holder(key, now)
        if found is None or if_exists == "return":
            return found and found.job
        status = found.job.status
        if if_exists == "raise" or status is _IN_PROGRESS:
            hint = "" if if_exists == "raise" else "; it cannot be replaced while it runs"
            raise KeyTakenError(
                found.job.id, f"the key {key!r} is that of job {found.job.id}, which is {status.value}{hint}"
            )
        self._take_out(found)
        self.turns.hand_on(found.job, job)
        self._give_up(found.job, FinishedStatus.CANCELLED, now, f"replaced by {job.id}")
        return None

    def _holder(self, key: str, now: datetime) -> Holder | None:
        """The job that has a key; but one that nobody has come for in time ends now."""
        found = holder_of(key, self._table, self.backlog, self.shelf)
        if found is None or found.job.status is _IN_PROGRESS or not is_expired(found.job, now):
            return found
        self._expire(found, now)
        return None

    def _fate(self, job_id: str, known: Fates) -> bool | None:
        """Whether a job has succeeded; None while that is open. Raises JobNotFoundError."""
        job = self._table.get(job_id)
        if job is None and (job_id in known or job_id in known.open):
            return known.get(job_id)
        found = job or self.look_up(job_id)
        if found is None and self.archives:
            raise JobNotFoundError(job_id)
        if isinstance(found, Job) and found.status is not JobStatus.DEAD:
            known.open.add(job_id)
            return None
        # Of one that is not found nobody can tell any more.
        known[job_id] = found is None or (isinstance(found, Ending) and found.succeeded)
        return known[job_id]
