"""Claims, in JSON: a worker takes jobs, keeps them, and gives them back, done or not."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call, given
from bucketq.broker.calls.shapes import Name, Seconds, Wait, Whole
from bucketq.broker.problem import Problem
from bucketq.failure import TRACE_MAX
from bucketq.job import Claim, Job
from bucketq.operation import Bury
from bucketq.progress import NOTE_MAX
from bucketq.told import Encoding, Status, Told, told_payload
from bucketq.wanted import WANTED_MAX, wanted_of

WorkerId = Annotated[str, Meta(min_length=1, max_length=200)]
Progress = Annotated[float, Meta(ge=0, le=1)] | None
Note = Annotated[str, Meta(max_length=NOTE_MAX)] | None


class ClaimJob(Asked):
    """Who wants a job, of which types, and for how many seconds to wait for one."""

    worker_id: WorkerId
    types: Annotated[tuple[Name, ...], Meta(max_length=WANTED_MAX)] = ()
    wait: Wait = 0.0


class Claimed(Told):
    """The job; empty if there is none. The token proves, in later calls, that the claim is still held."""

    job_id: str | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    payload_encoding: Encoding = "json"
    type: str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def of(cls, job: Job) -> "Claimed":
        """A job that was claimed."""
        payload, encoding = told_payload(job.payload)
        return cls(
            job_id=job.id,
            payload=payload,
            payload_encoding=encoding,
            type=job.entrypoint,
            token=job.token or UNSET,
            attempts=job.attempts,
            traceparent=job.traceparent,
            tracestate=job.tracestate,
        )


@call("claimJob", "POST /v1/jobs/claim", Role.WORKER)
async def claim_job(visit: Visit, asked: ClaimJob) -> Claimed:
    """Claim the next job, and wait for one if need be."""
    jobs = await _claim(visit, asked, 1)
    return Claimed.of(jobs[0]) if jobs else Claimed()


class ClaimJobs(ClaimJob):
    """The same, and how many jobs at most."""

    batch_size: Whole = 1


class ClaimedJobs(Told, omit_defaults=False):
    """The jobs; none if there are none."""

    jobs: list[Claimed]


@call("claimJobs", "POST /v1/claims", Role.WORKER)
async def claim_jobs(visit: Visit, asked: ClaimJobs) -> ClaimedJobs:
    """Claim several jobs at once, and wait for one if need be."""
    return ClaimedJobs(jobs=list(map(Claimed.of, await _claim(visit, asked, asked.batch_size))))


async def _claim(visit: Visit, asked: ClaimJob, batch_size: int) -> list[Job]:
    wanted, worker = wanted_of(asked.types or None), visit.worker(asked.worker_id)
    return await visit.service.dequeue(wanted, batch_size, asked.wait, worker)


class Held(Asked):
    """A claim: by the token that came with the job, or by the name of the worker."""

    rules: ClassVar[dict[str, Any]] = {"anyOf": [{"required": ["workerId"]}, {"required": ["token"]}]}

    job_id: str = ""
    worker_id: Name | UnsetType = UNSET
    token: Name | UnsetType = UNSET


class Heartbeat(Held):
    """A sign of life, and how far the work is."""

    progress: Progress = None
    note: Note = None


@call("heartbeat", "POST /v1/jobs/{jobId}/heartbeat", Role.WORKER)
async def heartbeat(visit: Visit, asked: Heartbeat) -> None:
    """Tell that the worker lives. A claim that is lost, or a job that was cancelled, is answered with 409."""
    claim = await visit.claim(asked.job_id, given(asked.token), given(asked.worker_id))
    await visit.service.heartbeat(claim, asked.progress, asked.note)


class CompleteJob(Held):
    """What the work has come to."""

    result: Raw | UnsetType = UNSET


@call("completeJob", "POST /v1/jobs/{jobId}/complete", Role.WORKER)
async def complete_job(visit: Visit, asked: CompleteJob) -> None:
    """Tell that the job is done."""
    claim = await visit.claim(asked.job_id, given(asked.token), given(asked.worker_id))
    await visit.service.ack(claim, b"" if asked.result is UNSET else bytes(asked.result))


class FailJob(Held):
    """Why it failed, where, and in how many seconds it is tried again; or never, if it is to be buried."""

    error: str | None = None
    trace: Annotated[str, Meta(max_length=TRACE_MAX)] | None = None
    retry_in: Seconds = 0.0
    bury: bool = False


class Failed(Told):
    """Where the job is now."""

    status: Status


@call("failJob", "POST /v1/jobs/{jobId}/fail", Role.WORKER)
async def fail_job(visit: Visit, asked: FailJob) -> Failed:
    """Tell that the job failed: it is tried again, or dead."""
    claim = await visit.claim(asked.job_id, given(asked.token), given(asked.worker_id))
    if asked.bury:
        burial = Bury(claim, asked.error or "given up", datetime.now(UTC), asked.trace)
        job = await visit.service.apply(burial, visit.caller)
    else:
        job = await visit.lead(
            lambda queue: queue.nack(claim, asked.error, retry_in=asked.retry_in, trace=asked.trace)
        )
    return Failed(status=job.status.value)


@call("releaseJob", "POST /v1/jobs/{jobId}/release", Role.WORKER)
async def release_job(visit: Visit, asked: Held) -> None:
    """Give a job back undone, because the worker leaves: it costs no attempt."""
    claim = await visit.claim(asked.job_id, given(asked.token), given(asked.worker_id))
    await visit.lead(lambda queue: queue.release(claim))


class ClaimRef(Asked):
    """A claim, by the token that came with the job."""

    job_id: Name
    token: Name

    @property
    def claim(self) -> Claim:
        """The claim itself."""
        return Claim(self.job_id, self.token)


class BeatRef(ClaimRef):
    """A claim, and how far its work is."""

    progress: Progress = None
    note: Note = None


class Refused(Told, omit_defaults=False):
    """The claims that are lost, each with its error; the others are seen to."""

    refused: list[Problem]


class HeartbeatMany(Asked):
    """Claims that are still at work."""

    claims: list[BeatRef]


@call("heartbeatMany", "POST /v1/claims/heartbeat", Role.WORKER)
async def heartbeat_many(visit: Visit, asked: HeartbeatMany) -> Refused:
    """Tell that the worker of many jobs lives."""
    said = {one.job_id: (one.progress, one.note) for one in asked.claims}
    claims = [one.claim for one in asked.claims]
    errors = await visit.lead(lambda queue: queue.heartbeat_many(claims, said))
    return Refused(refused=list(map(Problem.of, errors)))


class DoneRef(ClaimRef):
    """A claim, and what its work has come to."""

    result: Raw | UnsetType = UNSET


class CompleteMany(Asked):
    """Claims whose work is done."""

    claims: list[DoneRef]


@call("completeMany", "POST /v1/claims/complete", Role.WORKER)
async def complete_many(visit: Visit, asked: CompleteMany) -> Refused:
    """Tell that many jobs are done."""
    claims = [one.claim for one in asked.claims]
    results = [given(one.result) for one in asked.claims]
    errors = await visit.lead(lambda queue: queue.ack_many(claims, results))
    return Refused(refused=list(map(Problem.of, errors)))


class ReleaseMany(Asked):
    """Claims that the worker gives back."""

    claims: list[ClaimRef]


@call("releaseMany", "POST /v1/claims/release", Role.WORKER)
async def release_many(visit: Visit, asked: ReleaseMany) -> None:
    """Give many jobs back undone. What is not held any more is passed over."""
    await visit.lead(lambda queue: queue.release(*(one.claim for one in asked.claims)))


CALLS: list[Call] = [
    *(claim_job, heartbeat, complete_job, fail_job, release_job),
    *(claim_jobs, heartbeat_many, complete_many, release_many),
]
