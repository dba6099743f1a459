"""Many jobs at once, in JSON: as a batch, or in one transaction with what else is to land."""

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call, given
from bucketq.broker.calls.claims import ClaimRef
from bucketq.broker.calls.new_job import AnyJob, Following, NewJob
from bucketq.broker.calls.payload import content_of
from bucketq.broker.calls.shapes import IF_BASE64, NOT_BOTH_TIMES, Moment, Name, Seconds
from bucketq.broker.served import ServedQueue
from bucketq.errors import JobNotFoundError
from bucketq.job import IfDead
from bucketq.new_batch import Then
from bucketq.told import Told

_IF_BASE64 = {
    "if": IF_BASE64["if"],
    "then": {"properties": {"payloads": {"items": {"type": "string", "format": "base64"}}}},
}


class SubmitBatch(AnyJob, kw_only=True):
    """Jobs that differ in their payloads only, and perhaps one that follows when all are finished."""

    rules: ClassVar[dict[str, Any]] = {"allOf": [*NOT_BOTH_TIMES, _IF_BASE64]}

    payloads: list[Raw]
    delay: Seconds | UnsetType = UNSET
    run_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    after: Annotated[tuple[Name, ...], Meta(max_length=1000)] | UnsetType = UNSET
    if_dead: IfDead | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET
    then: Following | UnsetType = UNSET


class BatchSubmitted(Told):
    """The ids of the jobs, in order; and that of the batch, which is also that of the job that follows."""

    job_ids: list[str]
    batch_id: str = ""


@call("submitBatch", "POST /v1/jobs/batch", Role.PRODUCER)
async def submit_batch(visit: Visit, asked: SubmitBatch) -> BatchSubmitted:
    """Add many jobs, all or none."""
    contents = [content_of(payload, asked.payload_encoding) for payload in asked.payloads]
    options, then = asked.options, asked.then
    if then is UNSET:
        ids = await visit.lead(
            lambda queue: queue.enqueue_many(asked.type, contents, asked.priority, **options)
        )
        return BatchSubmitted(job_ids=list(ids))
    following = Then(then.type, then.content, then.priority, then.options)
    batch = await visit.lead(
        lambda queue: queue.enqueue_batch(asked.type, contents, asked.priority, then=following, **options)
    )
    return BatchSubmitted(job_ids=list(batch.job_ids), batch_id=batch.id)


class GetBatch(Asked):
    """Which batch."""

    batch_id: str = ""


class BatchTold(Told, omit_defaults=False):
    """How far a batch has got: `left` of `total` jobs are not finished; `failed` died or were cancelled."""

    total: int
    left: int
    failed: int


@call("getBatch", "GET /v1/batches/{batchId}", Role.VIEWER)
async def get_batch(visit: Visit, asked: GetBatch) -> BatchTold:
    """Tell how far a batch has got; it is forgotten when the job that follows is finished too."""
    counts = await visit.lead(lambda queue: queue.batch(asked.batch_id))
    if counts is None:
        raise JobNotFoundError(asked.batch_id, f"there is no batch {asked.batch_id}, or it is finished")
    return BatchTold(total=counts.total, left=counts.left, failed=counts.failed)


class Submit(NewJob, tag_field="do", tag="submit"):
    """Add a job."""


class Complete(ClaimRef, tag_field="do", tag="complete"):
    """Finish a job."""

    result: Raw | UnsetType = UNSET


class Fail(ClaimRef, tag_field="do", tag="fail"):
    """Give a job back that failed."""

    error: str | None = None
    retry_in: Seconds = 0.0


class Transact(Asked):
    """What is to land together."""

    operations: list[Submit | Complete | Fail]


class Transacted(Told, omit_defaults=False):
    """The ids of the submitted jobs, in order."""

    job_ids: list[str]


# What is inside is looked at one by one.
@call("transact", "POST /v1/transactions", Role.VIEWER)
async def transact(visit: Visit, asked: Transact) -> Transacted:
    """Submit, complete and fail jobs in one commit, or not at all."""
    for operation in asked.operations:
        visit.caller.need(Role.PRODUCER if isinstance(operation, Submit) else Role.WORKER)

    async def perform(queue: ServedQueue) -> list[str]:
        ids = []
        async with queue.transaction() as transaction:
            for operation in asked.operations:
                match operation:
                    case Submit():
                        job = transaction.enqueue(
                            operation.type, operation.content, operation.priority, **operation.options
                        )
                        ids.append(job.id)
                    case Complete():
                        transaction.ack(operation.claim, given(operation.result))
                    case Fail():
                        transaction.nack(operation.claim, operation.error, retry_in=operation.retry_in)
        return ids

    return Transacted(job_ids=await visit.lead(perform))


CALLS: list[Call] = [submit_batch, get_batch, transact]
