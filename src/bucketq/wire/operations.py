"""Operations <-> messages."""

from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from bucketq.errors import ConfigurationError, CorruptStateError
from bucketq.failure import TRACE_MAX
from bucketq.job import Job
from bucketq.mint import Mint
from bucketq.new_job import check_if_exists
from bucketq.operation import (
    Ack,
    AckMany,
    Adopt,
    Bury,
    Count,
    Crash,
    Dequeue,
    DequeueSegment,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    HeartbeatMany,
    HeartbeatSegment,
    LookUp,
    Nack,
    Operation,
    Refresh,
    Release,
    ReleaseSegment,
    RequeueSilent,
    SettleSegment,
    Single,
    Transact,
)
from bucketq.operation.limits import Pause, ReadLimits, Resume, SetLimit
from bucketq.operation.schedules import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.transfer.line import End, Finished, decode_line, encode_line
from bucketq.v1 import queue_pb2 as pb
from bucketq.wanted import names_of, wanted_of
from bucketq.wire.jobs import claim_message, claim_of, new_job_message, new_job_of
from bucketq.wire.limits import limit_message, limit_of
from bucketq.wire.moments import EPOCH, MICROSECOND, microseconds, moment
from bucketq.wire.schedules import schedule_message, schedule_of
from bucketq.wire.segments import dequeue_segment_of, parts_of, segments_of

_AHEAD_MAX = timedelta(days=1)


def operation_message(operation: Operation) -> pb.Operation:
    """An operation for the wire."""
    match operation:
        case Enqueue():
            return pb.Operation(enqueue=_enqueue_message(operation))
        case Dequeue():
            dequeue = pb.DequeueRequest(
                entrypoints=names_of(operation.wanted),
                batch_size=operation.batch_size,
                token=operation.token,
                worker=operation.worker,
                at_hand=operation.at_hand,
            )
            return pb.Operation(dequeue=dequeue)
        case Ack():
            ack = pb.AckRequest(claim=claim_message(operation.claim), result=operation.result)
            return pb.Operation(ack=ack)
        case AckMany():
            claims = map(claim_message, operation.claims)
            return pb.Operation(ack_many=pb.AckManyRequest(claims=claims, results=operation.results))
        case Nack():
            nack = pb.NackRequest(
                claim=claim_message(operation.claim),
                error=operation.error,
                retry_in_s=operation.retry_in_s,
                trace=operation.trace,
            )
            return pb.Operation(nack=nack)
        case Heartbeat():
            return pb.Operation(heartbeat=_heartbeat_message(operation))
        case HeartbeatMany():
            beats = map(_heartbeat_message, operation.beats)
            return pb.Operation(heartbeat_many=pb.HeartbeatManyRequest(beats=beats))
        case Release():
            claims, left = map(claim_message, operation.claims), operation.left_at is not None
            return pb.Operation(release=pb.ReleaseRequest(claims=claims, left=left))
        case Bury():
            claim = claim_message(operation.claim)
            bury = pb.BuryRequest(claim=claim, error=operation.error, trace=operation.trace)
            return pb.Operation(bury=bury)
        case Crash():
            return pb.Operation(crash=pb.CrashRequest(claim=claim_message(operation.claim)))
        case DequeueSegment() | HeartbeatSegment() | SettleSegment() | ReleaseSegment():
            return _of_segment_message(operation)
        case Transact():
            parts = map(operation_message, operation.operations)
            return pb.Operation(transaction=pb.TransactionRequest(operations=parts))
        case EnqueueSegments():
            return pb.Operation(enqueue_segments=_enqueue_segments_message(operation))
        case EnqueueBatch(part=Enqueue() as part):
            then, jobs = new_job_message(operation.then), _enqueue_message(part)
            return pb.Operation(enqueue_batch=pb.EnqueueBatchRequest(then=then, jobs=jobs))
        case EnqueueBatch(part=EnqueueSegments() as part):
            then, segments = new_job_message(operation.then), _enqueue_segments_message(part)
            return pb.Operation(enqueue_batch=pb.EnqueueBatchRequest(then=then, segments=segments))
        case Adopt():
            adopt = pb.AdoptRequest(
                load=operation.load,
                number=operation.number,
                lines=map(encode_line, operation.holdings),
                finished=dict(operation.finished),
                seen=operation.seen,
            )
            return pb.Operation(adopt=adopt)
        case FindBatch():
            return pb.Operation(find_batch=pb.FindBatchRequest(batch_id=operation.batch_id))
        case LookUp():
            return pb.Operation(look_up=pb.LookUpRequest(job_id=operation.job_id))
        case RequeueSilent():
            timeout_us = (operation.now - operation.before) // MICROSECOND
            return pb.Operation(requeue_stale=pb.RequeueStaleRequest(timeout_us=timeout_us))
        case Find():
            return pb.Operation(find=pb.FindRequest(job_id=operation.job_id))
        case Cancel() | Redrive() | Discard() | SettleMany():
            return _settlement_message(operation)
        case Count():
            return pb.Operation(stats=pb.StatsRequest())
        case Refresh():
            return pb.Operation(version=pb.VersionRequest())
        case PutSchedule():
            return pb.Operation(put_schedule=schedule_message(operation.schedule))
        case RemoveSchedule():
            return pb.Operation(remove_schedule=pb.RemoveScheduleRequest(name=operation.name))
        case ListSchedules():
            return pb.Operation(list_schedules=pb.ListSchedulesRequest())
        case Pause():
            return pb.Operation(pause=pb.PauseRequest(entrypoint=operation.entrypoint))
        case Resume():
            return pb.Operation(resume=pb.ResumeRequest(entrypoint=operation.entrypoint))
        case SetLimit():
            limit = limit_message(operation.limit)
            set_limit = pb.SetLimitRequest(
                entrypoint=operation.entrypoint, limit_key=operation.limit_key, limit=limit
            )
            return pb.Operation(set_limit=set_limit)
        case ReadLimits():
            return pb.Operation(limits=pb.LimitsRequest())
    raise ConfigurationError(f"a client does not send {type(operation).__name__}")


def operation_of(message: pb.Operation, now: datetime, mint: Mint | None = None) -> Operation:
    """An operation from the wire, as of a time. Raises ConfigurationError.

    With a mint, new jobs may come without an id: nobody will send the operation again.
    """
    match message.WhichOneof("operation"):
        case "enqueue":
            return _enqueue_of(message.enqueue, now, mint)
        case "dequeue":
            return _dequeue_of(message.dequeue, now)
        case "ack":
            return Ack(claim_of(message.ack.claim), now, message.ack.result)
        case "ack_many":
            acked = message.ack_many
            return AckMany(tuple(map(claim_of, acked.claims)), now, tuple(acked.results))
        case "nack":
            nack = message.nack
            error = nack.error if nack.HasField("error") else None
            return Nack(claim_of(nack.claim), error, now, nack.retry_in_s, _trace_of(nack))
        case "heartbeat":
            return _heartbeat_of(message.heartbeat, now)
        case "heartbeat_many":
            return HeartbeatMany(tuple(_heartbeat_of(beat, now) for beat in message.heartbeat_many.beats))
        case "release":
            claims = tuple(map(claim_of, message.release.claims))
            return Release(claims, now if message.release.left else None)
        case "bury":
            return Bury(claim_of(message.bury.claim), message.bury.error, now, _trace_of(message.bury))
        case "crash":
            return Crash(claim_of(message.crash.claim), now)
        case "dequeue_segment":
            return dequeue_segment_of(message.dequeue_segment, now)
        case "heartbeat_segment":
            return HeartbeatSegment(claim_of(message.heartbeat_segment.claim), now)
        case "settle_segment":
            return _settle_segment_of(message.settle_segment, now)
        case "release_segment":
            return ReleaseSegment(claim_of(message.release_segment.claim))
        case "transaction":
            parts = message.transaction.operations
            return Transact(tuple(operation_of(part, now, mint) for part in parts))
        case "enqueue_segments":
            return EnqueueSegments(segments_of(message.enqueue_segments.segments))
        case "enqueue_batch":
            batch = message.enqueue_batch
            part: Enqueue | EnqueueSegments = _enqueue_of(batch.jobs, now, mint)
            if batch.HasField("segments"):
                part = EnqueueSegments(segments_of(batch.segments.segments))
            return EnqueueBatch(_sent_job(batch.then, now, mint), part, now)
        case "adopt":
            return _adopt_of(message.adopt, now)
        case "find_batch":
            return FindBatch(message.find_batch.batch_id)
        case "look_up":
            return LookUp(message.look_up.job_id)
        case "requeue_stale":
            before_us = microseconds(now) - message.requeue_stale.timeout_us
            return RequeueSilent(moment(before_us) or EPOCH, now)
        case "find":
            return Find(message.find.job_id)
        case "cancel" | "redrive" | "discard" | "settle_many":
            return _settlement_of(message, now)
        case "stats":
            return Count()
        case "version":
            return Refresh()
        case "put_schedule":
            return PutSchedule(schedule_of(message.put_schedule, now, mint), now)
        case "remove_schedule":
            return RemoveSchedule(message.remove_schedule.name)
        case "list_schedules":
            return ListSchedules()
        case "pause":
            return Pause(_entrypoint_of(message.pause))
        case "resume":
            return Resume(_entrypoint_of(message.resume))
        case "set_limit":
            limited = message.set_limit
            limit_key = limited.limit_key if limited.HasField("limit_key") else None
            return SetLimit(_entrypoint_of(limited), limit_key, limit_of(limited.limit))
        case "limits":
            return ReadLimits()
    raise ConfigurationError("an operation that this broker does not know; is it older than the client?")


def _settlement_message(operation: Cancel | Redrive | Discard | SettleMany) -> pb.Operation:
    match operation:
        case Cancel():
            return pb.Operation(cancel=pb.CancelRequest(job_id=operation.job_id, where=operation.where))
        case Redrive():
            redrive = pb.RedriveRequest(
                job_id=operation.job_id, new_id=operation.new_id, where=operation.where
            )
            return pb.Operation(redrive=redrive)
        case Discard():
            return pb.Operation(discard=pb.DiscardRequest(job_id=operation.job_id, where=operation.where))
    parts = map(_settlement_message, operation.parts)
    return pb.Operation(settle_many=pb.SettleManyRequest(operations=parts))


def _settlement_of(message: pb.Operation, now: datetime) -> Cancel | Redrive | Discard | SettleMany:
    match message.WhichOneof("operation"):
        case "cancel":
            return Cancel(message.cancel.job_id, now, message.cancel.where)
        case "redrive":
            redrive = message.redrive
            return Redrive(redrive.job_id, redrive.new_id, now, redrive.where)
        case "discard":
            return Discard(message.discard.job_id, message.discard.where)
    parts = [operation_of(part, now) for part in message.settle_many.operations]
    dead = tuple(part for part in parts if isinstance(part, Redrive | Discard))
    if len(dead) < len(parts):
        raise ConfigurationError("many jobs at once are redriven or discarded")
    return SettleMany(dead)


def _of_segment_message(
    operation: DequeueSegment | HeartbeatSegment | SettleSegment | ReleaseSegment,
) -> pb.Operation:
    match operation:
        case DequeueSegment():
            dequeue = pb.DequeueSegmentRequest(
                entrypoint=operation.entrypoint, token=operation.token, worker=operation.worker
            )
            return pb.Operation(dequeue_segment=dequeue)
        case HeartbeatSegment():
            beat = pb.HeartbeatSegmentRequest(claim=claim_message(operation.claim))
            return pb.Operation(heartbeat_segment=beat)
        case ReleaseSegment():
            release = pb.ReleaseSegmentRequest(claim=claim_message(operation.claim))
            return pb.Operation(release_segment=release)
    settle = pb.SettleSegmentRequest(
        claim=claim_message(operation.claim),
        completed=map(msgspec.json.encode, operation.completed),
        failed=map(operation_message, operation.failed),
        rest=map(msgspec.json.encode, operation.rest),
    )
    return pb.Operation(settle_segment=settle)


def _settle_segment_of(message: pb.SettleSegmentRequest, now: datetime) -> SettleSegment:
    outcomes = [operation_of(outcome, now) for outcome in message.failed]
    failed = tuple(outcome for outcome in outcomes if isinstance(outcome, Single))
    if len(failed) < len(outcomes):
        raise ConfigurationError("a single job of a segment is nacked, buried, kept alive, or has crashed")
    completed, rest = parts_of(message.completed), segments_of(message.rest)
    return SettleSegment(claim_of(message.claim), completed, failed, rest, now)


def _enqueue_message(operation: Enqueue) -> pb.EnqueueRequest:
    return pb.EnqueueRequest(
        jobs=map(new_job_message, operation.jobs),
        if_exists=operation.if_exists,
        finished=dict(operation.finished) or None,
    )


def _enqueue_of(message: pb.EnqueueRequest, now: datetime, mint: Mint | None) -> Enqueue:
    jobs = tuple(_sent_job(job, now, mint) for job in message.jobs)
    return Enqueue(jobs, check_if_exists(message.if_exists or "return"), tuple(message.finished.items()))


def _sent_job(message: pb.NewJob, now: datetime, mint: Mint | None) -> Job:
    job = new_job_of(message, now, mint)
    # A clock that is far ahead must not put the job into the archive of a day that does not come.
    return job if job.created_at <= now + _AHEAD_MAX else replace(job, created_at=now + _AHEAD_MAX)


def _adopt_of(message: pb.AdoptRequest, now: datetime) -> Adopt:
    try:
        items = [decode_line(line, "what is to be adopted") for line in message.lines]
    except CorruptStateError as error:
        # It is the request that cannot be read, not the queue.
        raise ConfigurationError(str(error)) from error
    holdings = tuple(item for item in items if not isinstance(item, Finished | End))
    return Adopt(message.load, message.number, holdings, now, tuple(message.finished.items()), message.seen)


def _enqueue_segments_message(operation: EnqueueSegments) -> pb.EnqueueSegmentsRequest:
    return pb.EnqueueSegmentsRequest(segments=map(msgspec.json.encode, operation.segments))


def _dequeue_of(message: pb.DequeueRequest, now: datetime) -> Dequeue:
    if not message.token:
        raise ConfigurationError("in a batch a dequeue comes with the claim's token")
    return Dequeue(
        wanted_of(tuple(message.entrypoints) or None),
        message.batch_size or 1,
        message.token,
        now,
        message.worker or None,
        message.at_hand,
    )


def _heartbeat_message(operation: Heartbeat) -> pb.HeartbeatRequest:
    claim = claim_message(operation.claim)
    return pb.HeartbeatRequest(claim=claim, progress=operation.progress, note=operation.note)


def _heartbeat_of(message: pb.HeartbeatRequest, now: datetime) -> Heartbeat:
    progress = message.progress if message.HasField("progress") else None
    note = message.note if message.HasField("note") else None
    return Heartbeat(claim_of(message.claim), now, progress, note)


def _trace_of(message: pb.NackRequest | pb.BuryRequest) -> str | None:
    return message.trace[:TRACE_MAX] if message.HasField("trace") else None


def _entrypoint_of(message: pb.PauseRequest | pb.ResumeRequest | pb.SetLimitRequest) -> str | None:
    return message.entrypoint if message.HasField("entrypoint") else None
