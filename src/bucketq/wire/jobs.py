"""Jobs and claims <-> messages."""

from datetime import datetime
from operator import attrgetter
from typing import Any

from bucketq.errors import ConfigurationError
from bucketq.job import Attempt, Claim, IfDead, Job, JobStatus, Outcome
from bucketq.mint import Mint
from bucketq.new_job import MAX_ATTEMPTS, MAX_CRASHES, crashes_for
from bucketq.trace_context import TraceContext
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire.moments import EPOCH, microseconds, moment

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
    "traceparent",
)
_options_of = attrgetter(*_OPTIONS)
_NO_OPTIONS = _options_of(Job(id="none", entrypoint="", created_at=EPOCH))


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
        created_at=moment(message.created_at_us) or EPOCH,
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
        claimed_at=moment(message.claimed_at_us) or EPOCH,
        ended_at=moment(message.ended_at_us) or EPOCH,
        outcome=Outcome(message.outcome),
        worker=message.worker if message.HasField("worker") else None,
        error=message.error if message.HasField("error") else None,
        trace=message.trace if message.HasField("trace") else None,
    )


def new_job_message(job: Job) -> pb.NewJob:
    """A new job for the wire."""
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


def new_job_of(message: pb.NewJob, now: datetime, mint: Mint | None) -> Job:
    """A new job from the wire; a mint gives it an id if it has none. Raises ConfigurationError."""
    created_at = moment(message.created_at_us)
    job_id = message.id
    if mint is not None:
        job_id, created_at = job_id or mint.job_id(now), created_at or now
    if not job_id or created_at is None:
        raise ConfigurationError("in a batch a job comes with its id and with created_at_us")
    max_attempts = message.max_attempts or MAX_ATTEMPTS
    options = {"max_crashes": crashes_for(max_attempts)} | _options(message)
    is_for_later = options.get("run_at") is not None and options["run_at"] > created_at
    return Job(
        id=job_id,
        entrypoint=message.entrypoint,
        payload=message.payload,
        payload_object=message.payload_object or None,
        payload_size=message.payload_size,
        priority=message.priority,
        max_attempts=max_attempts,
        created_at=created_at,
        status=JobStatus.SCHEDULED if is_for_later else JobStatus.QUEUED,
        **options,
    )


def _options_message(job: Job) -> pb.JobOptions | None:
    # Without options, fewer attempts mean fewer crashes.
    if _options_of(job) == _NO_OPTIONS and job.max_attempts >= MAX_CRASHES:
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
        traceparent=job.traceparent,
        tracestate=job.tracestate,
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
    trace = TraceContext.of(options.traceparent, options.tracestate)
    max_crashes = {"max_crashes": options.max_crashes} if options.max_crashes else {}
    return max_crashes | {
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
        "traceparent": trace.traceparent,
        "tracestate": trace.tracestate,
    }


def claim_message(claim: Claim) -> pb.Claim:
    """A claim for the wire."""
    return pb.Claim(job_id=claim.job_id, token=claim.token)


def claim_of(message: pb.Claim) -> Claim:
    """A claim from the wire."""
    return Claim(message.job_id, message.token if message.HasField("token") else None)
