"""Operations and their answers <-> messages of proto/bucketq/v1/queue.proto.

Both sides need it: a client writes operations and reads answers, a broker the other way round.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus
from bucketq.batches import BatchCounts
from bucketq.ending import Ending
from bucketq.errors import BucketQError, ConfigurationError, NotLeaderError, SessionForgottenError
from bucketq.failure import TRACE_MAX
from bucketq.job import Attempt, Claim, IfDead, Job, JobStatus, Outcome
from bucketq.limit_operation import Pause, ReadLimits, Resume, SetLimit
from bucketq.limits import Limit, Limits
from bucketq.mint import Mint
from bucketq.new_job import MAX_ATTEMPTS, MAX_CRASHES, check_if_exists
from bucketq.operation import (
    Ack,
    AckMany,
    Bury,
    Count,
    Dequeue,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    LookUp,
    Nack,
    Operation,
    Refresh,
    Release,
    RequeueSilent,
    Transact,
)
from bucketq.refusal import Refusal
from bucketq.schedule import Missed, Schedule
from bucketq.scheduling import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.segment import Segment
from bucketq.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.state import Stats
from bucketq.storage.port import ObjectInfo
from bucketq.v1 import queue_pb2 as pb

# Objects travel in pieces of this size.
CHUNK_BYTES = 1024 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STATUSES = {
    JobStatus.QUEUED: pb.STATUS_QUEUED,
    JobStatus.IN_PROGRESS: pb.STATUS_IN_PROGRESS,
    JobStatus.DEAD: pb.STATUS_DEAD,
    JobStatus.SCHEDULED: pb.STATUS_SCHEDULED,
    JobStatus.BLOCKED: pb.STATUS_BLOCKED,
}
STATUS_OF = {number: status for status, number in _STATUSES.items()}
# What a plain job is made without.
_OPTIONS = (
    "max_crashes",
    "run_at",
    "expires_at",
    "timeout_s",
    "key",
    "key_for_s",
    "tenant",
    "limit_key",
    "after",
    "if_dead",
    "batch",
    "redrive_of",
)
_options_of = attrgetter(*_OPTIONS)
_NO_OPTIONS = _options_of(Job(id="none", entrypoint="", created_at=_EPOCH))


def microseconds(moment: datetime | None) -> int:
    """A time as the wire has it."""
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime | None:
    """A time of the wire. Raises ConfigurationError."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds) if microseconds else None
    except OverflowError as error:
        raise ConfigurationError(f"{microseconds} µs after 1970 is no time: {error}") from error


# Jobs


def job_message(job: Job) -> pb.Job:
    """A job for the wire."""
    message = pb.Job(
        id=job.id,
        entrypoint=job.entrypoint,
        payload=job.payload,
        status=_STATUSES[job.status],
        priority=job.priority,
        created_at_us=microseconds(job.created_at),
        heartbeat_at_us=microseconds(job.heartbeat_at),
        sequence=job.sequence,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        claimed_at_us=microseconds(job.claimed_at),
        token=job.token,
        worker=job.worker,
        error=job.error,
    )
    if job.payload_object is not None:
        message.payload_object = job.payload_object
        message.payload_size = job.payload_size
    for attempt in job.history:
        message.history.add(
            claimed_at_us=microseconds(attempt.claimed_at),
            ended_at_us=microseconds(attempt.ended_at),
            outcome=attempt.outcome.value,
            worker=attempt.worker,
            error=attempt.error,
            trace=attempt.trace,
        )
    if (options := _options_message(job)) is not None:
        message.options.CopyFrom(options)
    if job.crashes or job.turn or job.is_cancelled:
        message.crashes, message.turn, message.is_cancelled = job.crashes, job.turn, job.is_cancelled
    if job.progress is not None:
        message.progress = job.progress
    if job.note is not None:
        message.note = job.note
    return message


def job_of(message: pb.Job) -> Job:
    """A job from the wire."""
    return Job(
        id=message.id,
        entrypoint=message.entrypoint,
        payload=message.payload,
        payload_object=message.payload_object or None,
        payload_size=message.payload_size,
        status=STATUS_OF[message.status],
        priority=message.priority,
        created_at=moment(message.created_at_us) or _EPOCH,
        heartbeat_at=moment(message.heartbeat_at_us),
        sequence=message.sequence,
        attempts=message.attempts,
        max_attempts=message.max_attempts,
        claimed_at=moment(message.claimed_at_us),
        token=message.token if message.HasField("token") else None,
        worker=message.worker if message.HasField("worker") else None,
        error=message.error if message.HasField("error") else None,
        history=tuple(map(_attempt_of, message.history)),
        crashes=message.crashes,
        turn=message.turn,
        progress=message.progress if message.HasField("progress") else None,
        note=message.note if message.HasField("note") else None,
        is_cancelled=message.is_cancelled,
        **_options(message),
    )


def _attempt_of(message: pb.Attempt) -> Attempt:
    return Attempt(
        claimed_at=moment(message.claimed_at_us) or _EPOCH,
        ended_at=moment(message.ended_at_us) or _EPOCH,
        outcome=Outcome(message.outcome),
        worker=message.worker if message.HasField("worker") else None,
        error=message.error if message.HasField("error") else None,
        trace=message.trace if message.HasField("trace") else None,
    )


def _options_message(job: Job) -> pb.JobOptions | None:
    if _options_of(job) == _NO_OPTIONS:
        return None
    return pb.JobOptions(
        max_crashes=job.max_crashes,
        run_at_us=microseconds(job.run_at),
        expires_at_us=microseconds(job.expires_at),
        timeout_s=job.timeout_s,
        key=job.key,
        key_for_s=job.key_for_s,
        tenant=job.tenant,
        limit_key=job.limit_key,
        after=job.after,
        if_dead=job.if_dead.value,
        batch=job.batch,
        redrive_of=job.redrive_of,
    )


def _options(message: pb.Job | pb.NewJob) -> dict[str, Any]:
    """The fields of a job that stand in its options, if it has some. Raises ConfigurationError."""
    if not message.HasField("options"):
        return {}
    options = message.options
    try:
        if_dead = IfDead(options.if_dead or IfDead.CANCEL)
    except ValueError:
        raise ConfigurationError(f"if_dead is 'cancel' or 'run', not {options.if_dead!r}") from None
    return {
        "max_crashes": options.max_crashes or MAX_CRASHES,
        "run_at": moment(options.run_at_us),
        "expires_at": moment(options.expires_at_us),
        "timeout_s": options.timeout_s,
        "key": options.key if options.HasField("key") else None,
        "key_for_s": options.key_for_s,
        "tenant": options.tenant if options.HasField("tenant") else None,
        "limit_key": options.limit_key if options.HasField("limit_key") else None,
        "after": tuple(options.after),
        "if_dead": if_dead,
        "batch": options.batch if options.HasField("batch") else None,
        "redrive_of": options.redrive_of if options.HasField("redrive_of") else None,
    }


def _new_job_message(job: Job) -> pb.NewJob:
    message = pb.NewJob(
        entrypoint=job.entrypoint,
        payload=job.payload,
        priority=job.priority,
        max_attempts=job.max_attempts,
        id=job.id,
        created_at_us=microseconds(job.created_at),
    )
    if job.payload_object is not None:
        message.payload_object = job.payload_object
        message.payload_size = job.payload_size
    if (options := _options_message(job)) is not None:
        message.options.CopyFrom(options)
    return message


def _new_job_of(message: pb.NewJob, now: datetime, mint: Mint | None) -> Job:
    created_at = moment(message.created_at_us)
    job_id = message.id
    if mint is not None:
        job_id, created_at = job_id or mint.job_id(now), created_at or now
    if not job_id or created_at is None:
        raise ConfigurationError("in a batch a job comes with its id and with created_at_us")
    options = _options(message)
    is_for_later = options.get("run_at") is not None and options["run_at"] > created_at
    return Job(
        id=job_id,
        entrypoint=message.entrypoint,
        payload=message.payload,
        payload_object=message.payload_object or None,
        payload_size=message.payload_size,
        priority=message.priority,
        max_attempts=message.max_attempts or MAX_ATTEMPTS,
        created_at=created_at,
        status=JobStatus.SCHEDULED if is_for_later else JobStatus.QUEUED,
        **options,
    )


def _schedule_message(schedule: Schedule) -> pb.Schedule:
    return pb.Schedule(
        name=schedule.name,
        cron=schedule.cron,
        tz=schedule.tz,
        every_s=schedule.every_s,
        missed=schedule.missed.value,
        next_at_us=microseconds(schedule.next_at),
        last_at_us=microseconds(schedule.last_at),
        job=_new_job_message(schedule.job),
    )


def _schedule_of(message: pb.Schedule, now: datetime, mint: Mint | None = None) -> Schedule:
    if message.missed not in ("", *Missed):
        raise ConfigurationError(f"missed is 'skip', 'last' or 'all', not {message.missed!r}")
    return Schedule(
        name=message.name,
        cron=message.cron if message.HasField("cron") else None,
        tz=message.tz or "UTC",
        every_s=message.every_s,
        missed=Missed(message.missed or Missed.LAST),
        next_at=moment(message.next_at_us),
        last_at=moment(message.last_at_us),
        job=_new_job_of(message.job, now, mint),
    )


def _claim_message(claim: Claim) -> pb.Claim:
    return pb.Claim(job_id=claim.job_id, token=claim.token)


def claim_of(message: pb.Claim) -> Claim:
    """A claim from the wire."""
    return Claim(message.job_id, message.token if message.HasField("token") else None)


# Operations


def operation_message(operation: Operation) -> pb.Operation:
    """An operation for the wire."""
    match operation:
        case Enqueue():
            return pb.Operation(enqueue=_enqueue_message(operation))
        case Dequeue():
            dequeue = pb.DequeueRequest(
                entrypoint=operation.entrypoint,
                batch_size=operation.batch_size,
                token=operation.token,
                worker=operation.worker,
            )
            return pb.Operation(dequeue=dequeue)
        case Ack():
            ack = pb.AckRequest(claim=_claim_message(operation.claim), result=operation.result)
            return pb.Operation(ack=ack)
        case AckMany():
            return pb.Operation(ack_many=pb.AckManyRequest(claims=map(_claim_message, operation.claims)))
        case Nack():
            nack = pb.NackRequest(
                claim=_claim_message(operation.claim),
                error=operation.error,
                retry_in_s=operation.retry_in_s,
                trace=operation.trace,
            )
            return pb.Operation(nack=nack)
        case Heartbeat():
            beat = pb.HeartbeatRequest(
                claim=_claim_message(operation.claim), progress=operation.progress, note=operation.note
            )
            return pb.Operation(heartbeat=beat)
        case Release():
            claims, left = map(_claim_message, operation.claims), operation.left_at is not None
            return pb.Operation(release=pb.ReleaseRequest(claims=claims, left=left))
        case Bury():
            claim = _claim_message(operation.claim)
            bury = pb.BuryRequest(claim=claim, error=operation.error, trace=operation.trace)
            return pb.Operation(bury=bury)
        case Transact():
            parts = map(operation_message, operation.operations)
            return pb.Operation(transaction=pb.TransactionRequest(operations=parts))
        case EnqueueSegments():
            return pb.Operation(enqueue_segments=_enqueue_segments_message(operation))
        case EnqueueBatch(part=Enqueue() as part):
            then, jobs = _new_job_message(operation.then), _enqueue_message(part)
            return pb.Operation(enqueue_batch=pb.EnqueueBatchRequest(then=then, jobs=jobs))
        case EnqueueBatch(part=EnqueueSegments() as part):
            then, segments = _new_job_message(operation.then), _enqueue_segments_message(part)
            return pb.Operation(enqueue_batch=pb.EnqueueBatchRequest(then=then, segments=segments))
        case FindBatch():
            return pb.Operation(find_batch=pb.FindBatchRequest(batch_id=operation.batch_id))
        case LookUp():
            return pb.Operation(look_up=pb.LookUpRequest(job_id=operation.job_id))
        case RequeueSilent():
            timeout_us = (operation.now - operation.before) // _MICROSECOND
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
            return pb.Operation(put_schedule=_schedule_message(operation.schedule))
        case RemoveSchedule():
            return pb.Operation(remove_schedule=pb.RemoveScheduleRequest(name=operation.name))
        case ListSchedules():
            return pb.Operation(list_schedules=pb.ListSchedulesRequest())
        case Pause():
            return pb.Operation(pause=pb.PauseRequest(entrypoint=operation.entrypoint))
        case Resume():
            return pb.Operation(resume=pb.ResumeRequest(entrypoint=operation.entrypoint))
        case SetLimit():
            limit = _limit_message(operation.limit)
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
            return AckMany(tuple(map(claim_of, message.ack_many.claims)), now)
        case "nack":
            nack = message.nack
            error = nack.error if nack.HasField("error") else None
            return Nack(claim_of(nack.claim), error, now, nack.retry_in_s, _trace_of(nack))
        case "heartbeat":
            beat = message.heartbeat
            progress = beat.progress if beat.HasField("progress") else None
            return Heartbeat(
                claim_of(beat.claim), now, progress, beat.note if beat.HasField("note") else None
            )
        case "release":
            claims = tuple(map(claim_of, message.release.claims))
            return Release(claims, now if message.release.left else None)
        case "bury":
            return Bury(claim_of(message.bury.claim), message.bury.error, now, _trace_of(message.bury))
        case "transaction":
            parts = message.transaction.operations
            return Transact(tuple(operation_of(part, now, mint) for part in parts))
        case "enqueue_segments":
            return EnqueueSegments(_segments_of(message.enqueue_segments.segments))
        case "enqueue_batch":
            batch = message.enqueue_batch
            part: Enqueue | EnqueueSegments = _enqueue_of(batch.jobs, now, mint)
            if batch.HasField("segments"):
                part = EnqueueSegments(_segments_of(batch.segments.segments))
            return EnqueueBatch(_new_job_of(batch.then, now, mint), part, now)
        case "find_batch":
            return FindBatch(message.find_batch.batch_id)
        case "look_up":
            return LookUp(message.look_up.job_id)
        case "requeue_stale":
            before_us = microseconds(now) - message.requeue_stale.timeout_us
            return RequeueSilent(moment(before_us) or _EPOCH, now)
        case "find":
            return Find(message.find.job_id)
        case "cancel" | "redrive" | "discard" | "settle_many":
            return _settlement_of(message, now)
        case "stats":
            return Count()
        case "version":
            return Refresh()
        case "put_schedule":
            return PutSchedule(_schedule_of(message.put_schedule, now, mint), now)
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
            return SetLimit(_entrypoint_of(limited), limit_key, _limit_of(limited.limit))
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


def _enqueue_message(operation: Enqueue) -> pb.EnqueueRequest:
    return pb.EnqueueRequest(
        jobs=map(_new_job_message, operation.jobs),
        if_exists=operation.if_exists,
        finished=dict(operation.finished) or None,
    )


def _enqueue_of(message: pb.EnqueueRequest, now: datetime, mint: Mint | None) -> Enqueue:
    jobs = tuple(_new_job_of(job, now, mint) for job in message.jobs)
    return Enqueue(jobs, check_if_exists(message.if_exists or "return"), tuple(message.finished.items()))


def _enqueue_segments_message(operation: EnqueueSegments) -> pb.EnqueueSegmentsRequest:
    return pb.EnqueueSegmentsRequest(segments=map(msgspec.json.encode, operation.segments))


def _trace_of(message: pb.NackRequest | pb.BuryRequest) -> str | None:
    return message.trace[:TRACE_MAX] if message.HasField("trace") else None


def _entrypoint_of(message: pb.PauseRequest | pb.ResumeRequest | pb.SetLimitRequest) -> str | None:
    return message.entrypoint if message.HasField("entrypoint") else None


def _limit_message(limit: Limit) -> pb.Limit:
    return pb.Limit(max_running=limit.max_running, rate=limit.rate, burst=limit.burst)


def _limit_of(message: pb.Limit) -> Limit:
    return Limit(
        max_running=message.max_running if message.HasField("max_running") else None,
        rate=message.rate if message.HasField("rate") else None,
        burst=message.burst if message.HasField("burst") else None,
    )


def _limits_message(limits: Limits) -> pb.LimitsResponse:
    return pb.LimitsResponse(
        is_paused=limits.is_paused,
        paused=limits.paused,
        entrypoints={name: _limit_message(limit) for name, limit in limits.entrypoints.items()},
        limit_keys={name: _limit_message(limit) for name, limit in limits.limit_keys.items()},
    )


def _limits_of(message: pb.LimitsResponse) -> Limits:
    return Limits(
        is_paused=message.is_paused,
        paused=tuple(message.paused),
        entrypoints={name: _limit_of(limit) for name, limit in message.entrypoints.items()},
        limit_keys={name: _limit_of(limit) for name, limit in message.limit_keys.items()},
    )


def _dequeue_of(message: pb.DequeueRequest, now: datetime) -> Dequeue:
    if not message.token:
        raise ConfigurationError("in a batch a dequeue comes with the claim's token")
    return Dequeue(
        message.entrypoint if message.HasField("entrypoint") else None,
        message.batch_size or 1,
        message.token,
        now,
        message.worker or None,
    )


def _segments_of(segments: Iterable[bytes]) -> tuple[Segment, ...]:
    try:
        return tuple(msgspec.json.decode(segment, type=Segment) for segment in segments)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"no entry of a segment: {error}") from error


# Answers


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
            return pb.Answer(schedules=pb.Schedules(schedules=[_schedule_message(answer)]))
        case Limits():
            return pb.Answer(limits=_limits_message(answer))
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
        case AckMany():
            return pb.Answer(refusals=pb.Refusals(refusals=map(refusal_message, answer)))
        case Find() | Cancel() | Redrive() | Discard():
            return pb.Answer(segments=pb.Segments(segments=map(msgspec.json.encode, answer)))
        case ListSchedules():
            return pb.Answer(schedules=pb.Schedules(schedules=map(_schedule_message, answer)))
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
            return _limits_of(message.limits)
        case "segments":
            return list(_segments_of(message.segments.segments))
        case "schedules":
            schedules = [_schedule_of(one, _EPOCH) for one in message.schedules.schedules]
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


def info_message(info: ObjectInfo) -> pb.ObjectInfo:
    """A listed object, for the wire."""
    return pb.ObjectInfo(
        name=info.name, size_bytes=info.size_bytes, modified_at_us=microseconds(info.modified_at)
    )


def info_of(message: pb.ObjectInfo) -> ObjectInfo:
    """A listed object, from the wire."""
    return ObjectInfo(message.name, message.size_bytes, moment(message.modified_at_us) or _EPOCH)


def refusal_message(error: Exception) -> pb.Refusal:
    """An error, for the wire."""
    refusal = Refusal.of(error)
    return pb.Refusal(
        error=refusal.error,
        message=refusal.message,
        job_id=refusal.job_id,
        leader=error.address if isinstance(error, NotLeaderError) else "",
        may_be_done=isinstance(error, NotLeaderError) and error.may_be_done,
        version=error.version if isinstance(error, SessionForgottenError) else 0,
    )


def error_of(message: pb.Refusal) -> BucketQError:
    """An error, from the wire."""
    if message.error == NotLeaderError.__name__:
        return NotLeaderError(message.leader, may_be_done=message.may_be_done)
    if message.error == SessionForgottenError.__name__:
        return SessionForgottenError(message.version)
    return Refusal(message.error, message.message, message.job_id).exception()
