"""Batches: jobs that are counted together, and the job that follows when all of them are finished.

    enqueue_batch ──▶ 3 left ──▶ 2 left ──▶ 1 left ──▶ 0 left: the follower is enqueued
                         each by the very commit in which a job of the batch is finished

A batch has the id of its follower. It is remembered until that is finished too, so that it can
ask how the batch went.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from bucketq.job import Count, Job, JobStatus


class BatchCounts(NamedTuple):
    """How far a batch has got: `left` of `total` jobs are not finished; `failed` died, or were cancelled."""

    total: int
    left: int
    failed: int = 0


class JobBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One batch, with its follower until that is enqueued."""

    total: Count
    left: Count
    failed: Count = 0
    then: Job | None = None

    @property
    def counts(self) -> BatchCounts:
        """What is told of it."""
        return BatchCounts(self.total, self.left, self.failed)


class Batches:
    """The batches under way, by id. A value: a change makes a new one."""

    def __init__(self, batches: Mapping[str, JobBatch] | None = None) -> None:
        self._batches: Mapping[str, JobBatch] = batches or {}

    def __iter__(self) -> Iterator[tuple[str, JobBatch]]:
        return iter(self._batches.items())

    def __bool__(self) -> bool:
        return bool(self._batches)

    def get(self, batch_id: str) -> JobBatch | None:
        """The batch with this id, or None."""
        return self._batches.get(batch_id)

    def follower(self, batch_id: str) -> Job | None:
        """The job that is enqueued when the batch is finished, while it is not."""
        batch = self._batches.get(batch_id)
        return batch.then if batch is not None else None

    def begun(self, batch_id: str, total: int, then: Job) -> "Batches":
        """These, and a new one."""
        then = replace(then, status=JobStatus.BLOCKED)
        return Batches({**self._batches, batch_id: JobBatch(total=total, left=total, then=then)})

    def counted(self, job: Job, *, succeeded: bool) -> "Batches":
        """These when a job is finished: one less is left of its batch, or the batch is over."""
        batch = self._batches.get(job.batch or "")
        if batch is None:
            return self
        if job.id == job.batch:
            return Batches({name: other for name, other in self._batches.items() if name != job.id})
        left = replace(batch, left=max(0, batch.left - 1), failed=batch.failed + (not succeeded))
        return Batches({**self._batches, str(job.batch): left})

    def followed(self, batch_id: str) -> "Batches":
        """These when the follower of one is enqueued."""
        return Batches({**self._batches, batch_id: replace(self._batches[batch_id], then=None)})
