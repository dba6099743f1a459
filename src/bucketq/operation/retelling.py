"""Retelling: what an operation was answered, told again when its client asks again.

Most of it the state can tell; what it cannot is kept with the client's session.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, line_of
from bucketq.ending import Ending
from bucketq.errors import BucketQError
from bucketq.job import Job, JobStatus
from bucketq.limit_operation import ReadLimits
from bucketq.operation.arrivals import Enqueue
from bucketq.operation.claims import AckMany, Bury, Dequeue, Nack
from bucketq.operation.lookups import Count, Find, FindBatch, LookUp, Refresh
from bucketq.refusal import Refusal
from bucketq.scheduling import ListSchedules, PutSchedule
from bucketq.settlements import Cancel, Redrive
from bucketq.state import QueueState


def to_keep(operation: object, answer: Any) -> Any:
    """What to note of an answer that the state will not tell later."""
    if isinstance(answer, BucketQError):
        return Refusal.of(answer)
    if isinstance(answer, int):
        return answer
    if isinstance(answer, list) and any(isinstance(one, BucketQError) for one in answer):
        return [Refusal.of(one) for one in answer]
    if isinstance(operation, Enqueue) and answer != [] and isinstance(answer[0], Job):
        # Other jobs had the unique keys of these.
        ids = [job.id for job in answer]
        return {"ids": ids} if ids != [job.id for job in operation.jobs] else None
    if isinstance(operation, Cancel | Redrive) and isinstance(answer, Job):
        return {"job": msgspec.to_builtins(replace(answer, payload=b"", history=()))}
    return None


def from_kept(kept: Any, state: QueueState, operation: object) -> Any:
    """An answer of which something was noted."""
    match kept:
        case {"ids": ids} if isinstance(operation, Enqueue):
            # Of one that is gone meanwhile only the id is known.
            return [
                state.find(job_id) or replace(job, id=job_id)
                for job, job_id in zip(operation.jobs, ids, strict=True)
            ]
        case {"job": job}:
            answered = msgspec.convert(job, Job)
            return state.find(answered.id) or answered
        case Refusal():
            return kept.exception()
        case [str(), *_]:
            return msgspec.convert(kept, Refusal).exception()
        case list():
            return [from_kept(one, state, operation) for one in kept]
    return kept


def told_by(state: QueueState, operation: object, held: dict[str | None, list[Job]]) -> Any:
    """The answer of an operation that was applied before, by how things stand now; None if unknown."""
    match operation:
        case Enqueue():
            return [state.find(job.id) or _ended(state, job) for job in operation.jobs]
        case Dequeue():
            # There was nothing, or all of it is lost again. Whoever asked has to ask anew.
            return held.get(operation.token)
        case Nack() | Bury():
            job = state.find(operation.claim.job_id)
            return job if job is not None and job.token is None else None
        case AckMany():
            return []
        case PutSchedule():
            return state.schedules.get(operation.schedule.name)
        case Refresh() | Count() | Find() | FindBatch() | LookUp() | ListSchedules() | ReadLimits():
            return operation(state)
    return None


def _ended(state: QueueState, job: Job) -> Job:
    """A new job that is gone already: it may have waited for one that did not succeed."""
    line = line_of(state.ledger.lines(), job.id) if job.after else None
    if line is None or Ending.of_line(line).status is not FinishedStatus.CANCELLED:
        return job
    return replace(job, status=JobStatus.BLOCKED, is_cancelled=True, error=Ending.of_line(line).error)
