"""What operations are answered <-> messages."""

from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus
from bucketq.batches import BatchCounts
from bucketq.ending import Ending
from bucketq.errors import BucketQError
from bucketq.job import Job
from bucketq.limits import Limits
from bucketq.operation import AckMany, Dequeue, Enqueue, Find, HeartbeatMany, Operation
from bucketq.operation.schedules import ListSchedules, PutSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive
from bucketq.schedule import Schedule
from bucketq.segment_claim import SegmentClaim
from bucketq.state import Stats
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire.jobs import job_message, job_of
from bucketq.wire.limits import limits_message, limits_of
from bucketq.wire.moments import EPOCH
from bucketq.wire.refusals import error_of, refusal_message
from bucketq.wire.schedules import schedule_message, schedule_of
from bucketq.wire.segments import segment_claim_message, segment_claim_of, segments_of


def answer_message(operation: Operation, answer: Any) -> pb.Answer:
    """What an operation is answered, for the wire."""
    match answer:
        case None:
            return pb.Answer(done=pb.Done())
        case BucketQError():
            return pb.Answer(refusal=refusal_message(answer))
        case Job():
            return pb.Answer(job=job_message(answer))
        case Stats():
            return pb.Answer(stats=stats_message(answer))
        case Ending():
            return pb.Answer(ending=ending_message(answer))
        case BatchCounts():
            return pb.Answer(batch=pb.BatchCounts(**answer._asdict()))
        case int():
            return pb.Answer(number=answer)
        case Schedule():
            return pb.Answer(schedules=pb.Schedules(schedules=[schedule_message(answer)]))
        case Limits():
            return pb.Answer(limits=limits_message(answer))
        case SegmentClaim():
            return pb.Answer(segment_claim=segment_claim_message(answer))
    match operation:
        case Enqueue():
            if all(job.key is None and not job.after for job in operation.jobs):
                return pb.Answer(added=pb.Sequences(sequences=[job.sequence for job in answer]))
            # The payloads of its own jobs the client has.
            own = {job.id for job in operation.jobs}
            told = (replace(job, payload=b"") if job.id in own else job for job in answer)
            return pb.Answer(jobs=pb.Jobs(jobs=map(job_message, told)))
        case Dequeue():
            return pb.Answer(jobs=pb.Jobs(jobs=map(job_message, answer)))
        case AckMany() | HeartbeatMany():
            return pb.Answer(refusals=pb.Refusals(refusals=map(refusal_message, answer)))
        case Find() | Cancel() | Redrive() | Discard():
            return pb.Answer(segments=pb.Segments(segments=map(msgspec.json.encode, answer)))
        case ListSchedules():
            return pb.Answer(schedules=pb.Schedules(schedules=map(schedule_message, answer)))
    raise TypeError(f"no answer to {type(operation).__name__}: {answer!r}")


def answer_of(operation: Operation, message: pb.Answer) -> Any:
    """What an operation was answered; an error that it was refused with is returned."""
    match message.WhichOneof("answer"):
        case "refusal":
            return error_of(message.refusal)
        case "added" if isinstance(operation, Enqueue):
            return [
                replace(job, sequence=sequence)
                for job, sequence in zip(operation.jobs, message.added.sequences, strict=True)
            ]
        case "jobs" if isinstance(operation, Enqueue):
            payloads = {job.id: job.payload for job in operation.jobs}
            told = map(job_of, message.jobs.jobs)
            return [replace(job, payload=payloads.get(job.id, job.payload)) for job in told]
        case "jobs":
            return [job_of(job) for job in message.jobs.jobs]
        case "ending":
            return ending_of(message.ending)
        case "batch":
            return BatchCounts(message.batch.total, message.batch.left, message.batch.failed)
        case "job":
            return job_of(message.job)
        case "refusals":
            return [error_of(refusal) for refusal in message.refusals.refusals]
        case "number":
            return message.number
        case "stats":
            return stats_of(message.stats)
        case "limits":
            return limits_of(message.limits)
        case "segment_claim":
            return segment_claim_of(message.segment_claim)
        case "segments":
            return list(segments_of(message.segments.segments))
        case "schedules":
            schedules = [schedule_of(one, EPOCH) for one in message.schedules.schedules]
            return schedules[0] if isinstance(operation, PutSchedule) else schedules
    return None


def ending_message(ending: Ending) -> pb.Ending:
    """How a job ended, for the wire."""
    result = b"" if ending.result is None else msgspec.json.encode(ending.result)
    return pb.Ending(status=ending.status.value, error=ending.error, result=result)


def ending_of(message: pb.Ending) -> Ending:
    """How a job ended, from the wire."""
    result = msgspec.json.decode(message.result) if message.result else None
    error = message.error if message.HasField("error") else None
    return Ending(FinishedStatus(message.status), error, result)


def stats_message(stats: Stats) -> pb.StatsResponse:
    """The counts, for the wire."""
    return pb.StatsResponse(**stats._asdict())


def stats_of(message: pb.StatsResponse) -> Stats:
    """The counts, from the wire."""
    return Stats(*(getattr(message, name) for name in Stats._fields))
