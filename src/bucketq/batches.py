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

from bucketq.errors import QueueFullError
from bucketq.job import Count, Job, JobStatus
from bucketq.journal import Journal

# Open at the same time: all of them are in queue.json, 300 bytes each and more.
BATCHES_MAX = 10_000


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


class NamedBatch(NamedTuple):
    """A batch, and its id."""

    id: str
    batch: JobBatch


class Batches:
    """The batches under way, by id. `touched` collects the ids of those that changed."""

    def __init__(self, journal: Journal, batches: Mapping[str, JobBatch] | None = None) -> None:
        self._journal = journal
        self._batches = dict(batches or {})
        # The objects with the payloads of followers, and whose they are.
        self._payloads = {name: one for one, batch in self if (name := _payload_of(batch)) is not None}
        # A dict as a set that keeps its order; whoever encodes them empties it.
        self.touched: dict[str, None] = {}

    def __iter__(self) -> Iterator[tuple[str, JobBatch]]:
        return iter(self._batches.items())

    def __len__(self) -> int:
        return len(self._batches)

    def get(self, batch_id: str) -> JobBatch | None:
        """The batch with this id, or None."""
        return self._batches.get(batch_id)

    def follower(self, batch_id: str) -> Job | None:
        """The job that is enqueued when the batch is finished, while it is not."""
        batch = self._batches.get(batch_id)
        return batch.then if batch is not None else None

    def has_payload(self, name: str) -> bool:
        """Whether an object is the payload of a follower."""
        return name in self._payloads

    def begin(self, batch_id: str, total: int, then: Job) -> None:
        """Add a new one. Raises QueueFullError."""
        self._refuse_more()
        then = replace(then, status=JobStatus.BLOCKED)
        self._put(batch_id, JobBatch(total=total, left=total, then=then))

    def adopt(self, named: NamedBatch) -> None:
        """Add one that another queue had. Raises QueueFullError."""
        self._refuse_more()
        self._put(*named)

    def count(self, job: Job, *, succeeded: bool) -> None:
        """A job is finished: one less is left of its batch, or the batch is over."""
        batch = self._batches.get(job.batch or "")
        if batch is None or job.batch is None:
            return
        if job.id == job.batch:
            self._put(job.id, None)
            return
        left = max(0, batch.left - 1)
        self._put(job.batch, replace(batch, left=left, failed=batch.failed + (not succeeded)))

    def follow(self, batch_id: str) -> None:
        """The follower of one is enqueued."""
        self._put(batch_id, replace(self._batches[batch_id], then=None))

    def _refuse_more(self) -> None:
        if len(self._batches) >= BATCHES_MAX:
            raise QueueFullError(
                f"{len(self._batches)} batches are open, and every commit writes them all; the limit is"
                f" {BATCHES_MAX}. Enqueue this one when another is finished, or make fewer and larger ones."
            )

    def _put(self, batch_id: str, batch: JobBatch | None) -> None:
        if (name := _payload_of(self._batches.get(batch_id))) is not None:
            self._journal.put(self._payloads, name, None)
        if (name := _payload_of(batch)) is not None:
            self._journal.put(self._payloads, name, batch_id)
        self._journal.put(self._batches, batch_id, batch)
        self.touched[batch_id] = None


def _payload_of(batch: JobBatch | None) -> str | None:
    return batch.then.payload_object if batch is not None and batch.then is not None else None
