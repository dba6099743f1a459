"""Settlements: what is done to a job by its id, wherever it stands."""

from datetime import datetime

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus
from bucketq.errors import ConfigurationError, JobNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.segment import Segment
from bucketq.state.adoptions import WithAdoptions


class WithSettlements(WithAdoptions):
    """Cancelling a job; doing a dead one again, or forgetting it."""

    def cancel(self, job_id: str, now: datetime, where: str = "") -> Job | list[Segment]:
        """The job is not wanted any more: gone if it waits; if it runs, its worker will hear of it.

        `where` and the answer are those of `locate`.
        """
        if (follower := self.batches.follower(job_id)) is not None:
            # It comes only to be cancelled, and takes its batch with it.
            self.batches.follow(job_id)
            self._add(follower)
        found = self.locate(job_id, where, is_dead=False)
        if isinstance(found, list):
            return found
        if found.segment is not None and found.segment.hold is not None:
            raise JobNotFoundError(
                job_id,
                f"job {job_id} runs as one of a whole segment, and none of those can be cancelled by itself;"
                " it can if it fails, or comes back",
            )
        cancelled = replace(found.job, is_cancelled=True)
        if found.job.status is JobStatus.IN_PROGRESS:
            if not found.job.is_cancelled:
                self._put(cancelled)
        else:
            self._take_out(found)
            self._give_up(found.job, FinishedStatus.CANCELLED, now, None)
        return cancelled

    def redrive(self, job_id: str, new_id: str, now: datetime, where: str = "") -> Job | list[Segment]:
        """Do a dead job again, as a new one. `where` and the answer are those of `locate`."""
        found = self.locate(job_id, where, is_dead=True)
        if isinstance(found, list):
            return found
        if self._table.get(new_id):
            raise ConfigurationError(f"job {new_id} is in the queue already")
        new = _redriven(found.job, new_id, now)
        if new.key is not None:
            self._make_way(new, new.key, "raise", now)
        # Its payload was the dead one's, and so was never without a reference.
        self._take_out(found)
        self._make_room(line_bytes(new))
        return self._add(new)

    def discard(self, job_id: str, where: str = "") -> list[Segment]:
        """Forget a dead job. `where` and the answer are those of `locate`, or nothing."""
        found = self.locate(job_id, where, is_dead=True)
        if isinstance(found, list):
            return found
        self._take_out(found)
        payload = found.job.payload_object
        if payload is not None and payload not in self._on_its_way():
            self.dropped.append(payload)
        return []


def _redriven(dead: Job, new_id: str, now: datetime) -> Job:
    # What was said of its time, its turn and the jobs before it is over.
    return Job(
        id=new_id,
        entrypoint=dead.entrypoint,
        payload=dead.payload,
        payload_object=dead.payload_object,
        payload_size=dead.payload_size,
        priority=dead.priority,
        created_at=now,
        max_attempts=dead.max_attempts,
        max_crashes=dead.max_crashes,
        timeout_s=dead.timeout_s,
        key=dead.key,
        key_for_s=dead.key_for_s,
        tenant=dead.tenant,
        limit_key=dead.limit_key,
        redrive_of=dead.id,
        traceparent=dead.traceparent,
        tracestate=dead.tracestate,
    )
