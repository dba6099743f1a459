"""Operations that only look."""

from typing import NamedTuple

import msgspec

from bucketq.batches import BatchCounts
from bucketq.ending import Ending
from bucketq.job import Job, JobStatus
from bucketq.segment import Segment
from bucketq.state import QueueState, Stats


class Refresh(msgspec.Struct, frozen=True, gc=False):
    """Change nothing; tell the version of a state that is known to be current."""

    def __call__(self, state: QueueState) -> int:
        return state.version


class Count(msgspec.Struct, frozen=True, gc=False):
    """Tell how many jobs there are."""

    def __call__(self, state: QueueState) -> Stats:
        return state.stats


class Find(msgspec.Struct, frozen=True, gc=False):
    """Tell how a job stands in queue.json, or else in which segments it could be."""

    job_id: str

    def __call__(self, state: QueueState) -> Job | list[Segment]:
        job = state.find(self.job_id) or state.batches.follower(self.job_id)
        return job or state.backlog.may_hold(self.job_id)


class FindBatch(msgspec.Struct, frozen=True, gc=False):
    """Tell how far a batch has got, or None if there is none."""

    batch_id: str

    def __call__(self, state: QueueState) -> BatchCounts | None:
        batch = state.batches.get(self.batch_id)
        return batch.counts if batch is not None else None


class LookUp(msgspec.Struct, frozen=True, gc=False):
    """Tell how a job stands, or how it ended; None if it is archived, or never was."""

    job_id: str

    def __call__(self, state: QueueState) -> Job | Ending | None:
        return state.look_up(self.job_id)


class Listed(NamedTuple):
    """Jobs in queue.json, and the segments in which there could be more."""

    jobs: tuple[Job, ...]
    segments: tuple[Segment, ...]


class ListInFile(msgspec.Struct, frozen=True, gc=False):
    """Tell which jobs of a status and an entrypoint are in queue.json, and where there could be more."""

    status: JobStatus | None
    entrypoint: str | None

    def __call__(self, state: QueueState) -> Listed:
        jobs = state.jobs if self.status is None else state.with_status(self.status)
        segments = tuple(one for one in state.backlog if self.status in (None, one.status))
        if self.entrypoint is not None:
            jobs = tuple(job for job in jobs if job.entrypoint == self.entrypoint)
            segments = tuple(one for one in segments if one.entrypoint == self.entrypoint)
        return Listed(jobs, segments)
