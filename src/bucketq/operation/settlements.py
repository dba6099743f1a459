"""Cancel, Redrive, Discard: what is done to a job by its id, wherever it stands.

The job may be in a segment, and of those there may be more than can be held. So an operation
says in which segment the job was found, and if it is neither there nor in queue.json, it
changes nothing and is answered with the segments in which the job could be.
"""

from datetime import datetime

import msgspec

from bucketq.errors import JobNotFoundError, KeyTakenError
from bucketq.job import Job
from bucketq.segment import Segment
from bucketq.state import QueueState


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """End a job that waits; tell the worker of one that runs to stop."""

    job_id: str
    now: datetime
    where: str = ""

    def __call__(self, state: QueueState) -> Job | list[Segment]:
        return state.cancel(self.job_id, self.now, self.where)


class Redrive(msgspec.Struct, frozen=True, gc=False):
    """Do a dead job again, as a new one."""

    job_id: str
    new_id: str
    now: datetime
    where: str = ""

    def __call__(self, state: QueueState) -> Job | list[Segment]:
        return state.redrive(self.job_id, self.new_id, self.now, self.where)


class Discard(msgspec.Struct, frozen=True, gc=False):
    """Forget a dead job; 1 says that it is done."""

    job_id: str
    where: str = ""

    def __call__(self, state: QueueState) -> int | list[Segment]:
        return state.discard(self.job_id, self.where) or 1


class SettleMany(msgspec.Struct, frozen=True, gc=False):
    """Redrive or discard dead jobs, as far as they are where they were found; tell how many.

    One whose unique key is taken stays dead.
    """

    parts: tuple[Redrive | Discard, ...]

    def __call__(self, state: QueueState) -> int:
        done = 0
        for part in self.parts:
            try:
                done += not isinstance(state.attempt(part), list)
            except (JobNotFoundError, KeyTakenError):
                continue
        return done
