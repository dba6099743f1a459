"""Operations that add jobs."""

from datetime import datetime

import msgspec

from bucketq.dependents import Fates
from bucketq.job import Job
from bucketq.loads import LoadMark
from bucketq.new_job import IfExists
from bucketq.segment import Segment
from bucketq.state import QueueState


class Enqueue(msgspec.Struct, frozen=True, gc=False):
    """Add jobs, in this order; one whose unique key is taken only as `if_exists` says."""

    jobs: tuple[Job, ...]
    if_exists: IfExists = "return"
    # Of jobs that these wait for, and that are in the queue no more: whether they succeeded.
    finished: tuple[tuple[str, bool], ...] = ()

    def __call__(self, state: QueueState) -> list[Job]:
        fates = Fates(self.finished)
        return [state.enqueue(job, self.if_exists, fates) for job in self.jobs]


class EnqueueSegments(msgspec.Struct, frozen=True, gc=False):
    """Add the jobs of segments that were written before, in this order."""

    segments: tuple[Segment, ...]
    # The objects with their payloads, as a broker found them in segments that a client wrote.
    payloads: tuple[str, ...] = ()

    def __call__(self, state: QueueState) -> None:
        state.enqueue_segments(self.segments, self.payloads)


class EnqueueBatch(msgspec.Struct, frozen=True, gc=False):
    """Add jobs of a batch, and the job that follows when all of them are finished. Its id is the batch's."""

    then: Job
    part: Enqueue | EnqueueSegments
    now: datetime

    def __call__(self, state: QueueState) -> None:
        part = self.part
        total = len(part.jobs) if isinstance(part, Enqueue) else sum(one.count for one in part.segments)
        state.begin_batch(self.then, total)
        part(state)
        state.follow_up(self.then.id, self.now)


class Load(msgspec.Struct, frozen=True, gc=False):
    """Add a part of a named bulk load, unless it has landed before; tell whether it was added."""

    name: str
    mark: LoadMark
    part: Enqueue | EnqueueSegments

    def __call__(self, state: QueueState) -> bool:
        if state.loads.has(self.name, self.mark):
            return False
        self.part(state)
        state.load(self.name, self.mark)
        return True
