"""Retelling: what an operation was answered, told again when its client asks again.

Most of it the state can tell; what it cannot is kept with the client's session.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.dependents import cancelled_at_once
from bucketq.errors import BucketQError
from bucketq.job import Job
from bucketq.operation.arrivals import Enqueue
from bucketq.operation.claims import AckMany, Bury, Dequeue, HeartbeatMany, Nack
from bucketq.operation.limits import ReadLimits
from bucketq.operation.lookups import Count, Find, FindBatch, LookUp, Refresh
from bucketq.operation.schedules import ListSchedules, PutSchedule
from bucketq.operation.segment_claims import DequeueSegment
from bucketq.operation.settlements import Cancel, Redrive
from bucketq.refusal import Refusal
from bucketq.segment_claim import SegmentClaim
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
        return _enqueued_to_keep(operation, answer)
    is_gone = isinstance(operation, Nack | Bury) and isinstance(answer, Job) and answer.is_cancelled
    if is_gone or (isinstance(operation, Cancel | Redrive) and isinstance(answer, Job)):
        return {"job": _job_to_keep(answer)}
    return None


def from_kept(kept: Any, state: QueueState, operation: object) -> Any:
    """An answer of which something was noted."""
    match kept:
        case {"others": others, "cancelled": cancelled} if isinstance(operation, Enqueue):
            told = [state.find(job.id) or job for job in operation.jobs]
            for place, other in others.items():
                told[int(place)] = _other(state, msgspec.convert(other, Job))
            for reason, places in cancelled.items():
                for place in places:
                    told[place] = cancelled_at_once(operation.jobs[place], reason)
            return told
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
            return [state.find(job.id) or job for job in operation.jobs]
        case Dequeue():
            # There was nothing, or all of it is lost again. Whoever asked has to ask anew.
            return held.get(operation.token)
        case DequeueSegment():
            claims = state.backlog.held().items()
            claimed = (segment for claim, (segment, _) in claims if claim.token == operation.token)
            return next((SegmentClaim(segment, state.version) for segment in claimed), None)
        case Nack() | Bury():
            job = state.find(operation.claim.job_id)
            return replace(job, token=None) if job is not None else None
        case AckMany() | HeartbeatMany():
            return []
        case PutSchedule():
            return state.schedules.get(operation.schedule.name)
        case Refresh() | Count() | Find() | FindBatch() | LookUp() | ListSchedules() | ReadLimits():
            return operation(state)
    return None


def _enqueued_to_keep(operation: Enqueue, answer: list[Job]) -> Any:
    """Which other jobs had the unique keys of new ones; which of those were cancelled at once, and why."""
    others: dict[str, Any] = {}
    cancelled: dict[str, list[int]] = {}
    for place, (job, told) in enumerate(zip(operation.jobs, answer, strict=True)):
        if told.id != job.id:
            others[str(place)] = _job_to_keep(told)
        elif told.is_cancelled:
            cancelled.setdefault(told.error or "", []).append(place)
    return {"others": others, "cancelled": cancelled} if others or cancelled else None


def _job_to_keep(job: Job) -> Any:
    return msgspec.to_builtins(replace(job, payload=b"", history=()))


def _other(state: QueueState, told: Job) -> Job:
    """The job that had a unique key, as it was told; with its payload, while it is in queue.json."""
    found = state.find(told.id)
    if found is None or found.status is told.status:
        return found or told
    return replace(told, payload=found.payload)
