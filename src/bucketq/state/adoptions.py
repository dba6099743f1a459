"""Adoptions: jobs and batches that another queue had, as they were there."""

from datetime import datetime

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus
from bucketq.batches import NamedBatch
from bucketq.dependents import Fates, without
from bucketq.errors import KeyTakenError
from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.state.arrivals import WithArrivals


class WithAdoptions(WithArrivals):
    """How what another queue had comes into this one."""

    def adopt(self, job: Job, now: datetime, fates: Fates | None = None) -> bool:
        """Take over a job, which nobody holds, with its history; `fates` are those of `enqueue`.

        False if it is here, or another job has its unique key, or keeps it. A dead one is counted and
        archived here too.
        """
        if self._table.get(job.id):
            return False
        if job.status is JobStatus.BLOCKED and not job.after:
            # What it waited for did not come along.
            job = without(job, (), now)
        if job.status is not JobStatus.DEAD:
            try:
                is_adopted = self.enqueue(job, "return", fates, now).id == job.id
            except KeyTakenError:
                # By one that is finished, and keeps it for a while.
                is_adopted = False
            if not is_adopted and job.batch is not None:
                self._tell(job, False, now)
            return is_adopted
        if job.payload_object is not None:
            self._check_payload(job.payload_object)
        self._make_room(line_bytes(job))
        # Its batch has counted it, where it died.
        dead = self._add(replace(job, batch=None))
        self.dead_total += 1
        self._finish(dead, FinishedStatus.DEAD, now, dead.error)
        return True

    def adopt_batch(self, named: NamedBatch, now: datetime) -> None:
        """Take over a batch under way, before its jobs; one of the same id stays as it is."""
        if self.batches.get(named.id) is not None:
            return
        if (then := named.batch.then) is not None:
            if then.payload_object is not None:
                self._check_payload(then.payload_object)
            self._make_room(line_bytes(then))
        self.batches.adopt(named)
        self.changes += 1
        self.follow_up(named.id, now)
