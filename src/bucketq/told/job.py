"""A job as it is told in JSON, in the queue or finished. The token of its claim is never told."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from bucketq.archived_job import ArchivedJob
from bucketq.job import Attempt, IfDead, Job, Outcome
from bucketq.told.payload import Encoding, told_payload, told_result
from bucketq.told.shape import Status, Told


class AttemptTold(Told):
    """One worker's try at a job."""

    claimed_at: datetime
    ended_at: datetime
    outcome: Outcome
    worker_id: str | None = None
    error: str | None = None
    trace: str | None = None

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptTold":
        """An attempt as it is told."""
        return cls(
            claimed_at=attempt.claimed_at,
            ended_at=attempt.ended_at,
            outcome=attempt.outcome,
            worker_id=attempt.worker,
            error=attempt.error,
            trace=attempt.trace,
        )


class JobTold(Told):
    """A job. What it does not have is left out.

    A large payload is not here, but `payloadSize` says how long it is. `history` has the attempts that
    have ended. `finishedAt` and `result` are those of a finished job.
    """

    id: str
    type: str
    status: Status
    priority: int
    attempts: int
    created_at: datetime
    payload: Raw | UnsetType = UNSET
    payload_encoding: Encoding = "json"
    payload_size: int = 0
    max_attempts: int | UnsetType = UNSET
    crashes: int = 0
    max_crashes: int | UnsetType = UNSET
    worker_id: str | None = None
    claimed_at: datetime | None = None
    heartbeat_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None
    result: Raw | UnsetType = UNSET
    history: tuple[AttemptTold, ...] = ()
    run_at: datetime | None = None
    expires_at: datetime | None = None
    timeout: float = 0.0
    key: str | None = None
    key_for: float = 0.0
    tenant: str | None = None
    limit_key: str | None = None
    after: tuple[str, ...] = ()
    if_dead: IfDead = IfDead.CANCEL
    batch_id: str | None = None
    progress: float | None = None
    note: str | None = None
    is_cancelled: bool = False
    redrive_of: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def of(cls, job: Job) -> "JobTold":
        """A job in the queue."""
        return cls(**fields_of_live(job))

    @classmethod
    def of_archived(cls, job: ArchivedJob) -> "JobTold":
        """A finished job."""
        return cls(
            **_shared(job),
            attempts=job.attempts_total,
            finished_at=job.finished_at,
            result=told_result(job.result),
            history=tuple(map(AttemptTold.of, job.attempts)),
            batch_id=job.job_batch,
        )


def fields_of_live(job: Job) -> dict[str, Any]:
    """The fields of a job in the queue."""
    return _shared(job) | {
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "crashes": job.crashes,
        "max_crashes": job.max_crashes,
        "heartbeat_at": job.heartbeat_at,
        "history": tuple(map(AttemptTold.of, job.history)),
        "expires_at": job.expires_at,
        "timeout": job.timeout_s,
        "key_for": job.key_for_s,
        "after": job.after,
        "if_dead": job.if_dead,
        "batch_id": job.batch,
        "progress": job.progress,
        "note": job.note,
        "is_cancelled": job.is_cancelled,
        "tracestate": job.tracestate,
    }


def _shared(job: Job | ArchivedJob) -> dict[str, Any]:
    """What a job has wherever it is."""
    is_elsewhere = job.payload_object is not None
    payload, encoding = (UNSET, "json") if is_elsewhere else told_payload(job.payload)
    return {
        "id": job.id,
        "type": job.entrypoint,
        "status": job.status.value,
        "priority": job.priority,
        "created_at": job.created_at,
        "payload": payload,
        "payload_encoding": encoding,
        "payload_size": job.payload_size,
        "worker_id": job.worker,
        "claimed_at": job.claimed_at,
        "error": job.error,
        "run_at": job.run_at,
        "key": job.key,
        "tenant": job.tenant,
        "limit_key": job.limit_key,
        "redrive_of": job.redrive_of,
        "traceparent": job.traceparent,
    }
