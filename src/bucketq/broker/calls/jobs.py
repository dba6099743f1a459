"""The life of a job, in JSON: submitted, claimed, kept alive, completed or failed."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Told, Visit, call
from bucketq.broker.calls.payload import Encoding, content_of, told_payload
from bucketq.broker.service import WAIT_MAX_S
from bucketq.wanted import wanted_of

# The entrypoint of a job that was submitted without a type.
DEFAULT_TYPE = "default"

Wait = Annotated[float, Meta(ge=0, le=WAIT_MAX_S)]


class SubmitJob(Asked):
    """A new job."""

    payload: Raw | UnsetType = UNSET
    payload_encoding: Encoding = "json"
    type: str = DEFAULT_TYPE
    priority: int = 0
    max_attempts: int | UnsetType = UNSET


class Submitted(Told):
    """The id of the job."""

    job_id: str


@call("submitJob", "POST /v1/jobs", Role.PRODUCER)
async def submit_job(visit: Visit, asked: SubmitJob) -> Submitted:
    """Add a job."""
    content = content_of(asked.payload, asked.payload_encoding)
    options: Any = {} if asked.max_attempts is UNSET else {"max_attempts": asked.max_attempts}
    job = await visit.lead(lambda queue: queue.enqueue(asked.type, content, asked.priority, **options))
    return Submitted(job_id=job.id)


class ClaimJob(Asked):
    """Who wants a job, of which types, and for how many seconds to wait for one."""

    worker_id: Annotated[str, Meta(min_length=1, max_length=200)]
    types: tuple[str, ...] = ()
    wait: Wait = 0.0


class Claimed(Told):
    """The job; empty if there is none."""

    job_id: str | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    payload_encoding: Encoding = "json"
    type: str | UnsetType = UNSET
    # Shown with heartbeats and at the end, it proves that the claim is still this worker's.
    token: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET


@call("claimJob", "POST /v1/jobs/claim", Role.WORKER)
async def claim_job(visit: Visit, asked: ClaimJob) -> Claimed:
    """Claim the next job, and wait for one if need be."""
    jobs = await visit.service.dequeue(
        wanted_of(asked.types or None), 1, asked.wait, visit.worker(asked.worker_id)
    )
    if not jobs:
        return Claimed()
    payload, encoding = told_payload(jobs[0].payload)
    return Claimed(
        job_id=jobs[0].id,
        payload=payload,
        payload_encoding=encoding,
        type=jobs[0].entrypoint,
        token=jobs[0].token or UNSET,
        attempts=jobs[0].attempts,
    )


class Held(Asked):
    """A claim: by the token that came with the job, or by the name of the worker."""

    job_id: str = ""
    worker_id: str = ""
    token: str | None = None


class Heartbeat(Held):
    """A sign of life, and how far the work is."""

    progress: float | None = None
    note: str | None = None


@call("heartbeat", "POST /v1/jobs/{jobId}/heartbeat", Role.WORKER)
async def heartbeat(visit: Visit, asked: Heartbeat) -> None:
    """Tell that the worker lives."""
    claim = await visit.claim(asked.job_id, asked.token, asked.worker_id)
    await visit.service.heartbeat(claim, asked.progress, asked.note)


class CompleteJob(Held):
    """What the work has come to."""

    result: Raw | UnsetType = UNSET


@call("completeJob", "POST /v1/jobs/{jobId}/complete", Role.WORKER)
async def complete_job(visit: Visit, asked: CompleteJob) -> None:
    """Tell that the job is done."""
    claim = await visit.claim(asked.job_id, asked.token, asked.worker_id)
    await visit.service.ack(claim, b"" if asked.result is UNSET else bytes(asked.result))


class FailJob(Held):
    """Why it failed, and in how many seconds it is tried again."""

    error: str | None = None
    retry_in: Annotated[float, Meta(ge=0)] = 0.0


class Failed(Told):
    """Where the job is now."""

    status: str


@call("failJob", "POST /v1/jobs/{jobId}/fail", Role.WORKER)
async def fail_job(visit: Visit, asked: FailJob) -> Failed:
    """Tell that the job failed: it is tried again, or dead."""
    claim = await visit.claim(asked.job_id, asked.token, asked.worker_id)
    job = await visit.service.nack(claim, asked.error, asked.retry_in)
    return Failed(status=job.status.value)


CALLS: list[Call] = [submit_job, claim_job, heartbeat, complete_job, fail_job]
