"""What governs a queue, in JSON: pauses, limits, dead letters, and tidying up."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call, given
from bucketq.broker.calls.jobs import OneJob, Submitted
from bucketq.broker.calls.looking import Nothing
from bucketq.broker.calls.shapes import Name, Whole
from bucketq.limits import RATE_MAX, RATE_MIN
from bucketq.told import LimitsTold, ObjectTold, Told

Rate = Annotated[float, Meta(ge=RATE_MIN, le=RATE_MAX)]
MaxRunning = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class OfType(Asked):
    """Which type of jobs; without one, the whole queue."""

    type: Name | UnsetType = UNSET


@call("pause", "POST /v1/pause", Role.ADMIN)
async def pause(visit: Visit, asked: OfType) -> None:
    """Let no more jobs begin; those that run go on."""
    await visit.lead(lambda queue: queue.pause(given(asked.type)))


@call("resume", "POST /v1/resume", Role.ADMIN)
async def resume(visit: Visit, asked: OfType) -> None:
    """End a pause."""
    await visit.lead(lambda queue: queue.resume(given(asked.type)))


class SetLimit(Asked):
    """How many jobs of a type, or of a limit key, run at the same time, and how many begin a second.

    Without numbers there is no limit any more.
    """

    rules: ClassVar[dict[str, Any]] = {
        "oneOf": [{"required": ["type"]}, {"required": ["limitKey"]}],
        "dependentRequired": {"burst": ["rate"]},
    }

    type: Name | UnsetType = UNSET
    limit_key: Name | UnsetType = UNSET
    max_running: MaxRunning | UnsetType = UNSET
    rate: Rate | UnsetType = UNSET
    burst: Whole | UnsetType = UNSET


@call("setLimit", "PUT /v1/limits", Role.ADMIN)
async def set_limit(visit: Visit, asked: SetLimit) -> None:
    """Limit the jobs of a type, or those with a limit key."""
    await visit.lead(
        lambda queue: queue.limit(
            given(asked.type),
            limit_key=given(asked.limit_key),
            max_running=given(asked.max_running),
            rate=given(asked.rate),
            burst=given(asked.burst),
        )
    )


@call("getLimits", "GET /v1/limits", Role.VIEWER)
async def get_limits(visit: Visit, asked: Nothing) -> LimitsTold:
    """Tell what is paused, and what is limited."""
    limits = await visit.lead(lambda queue: queue.limits())
    return LimitsTold.of(limits)


@call("redriveJob", "POST /v1/jobs/{jobId}/redrive", Role.ADMIN)
async def redrive_job(visit: Visit, asked: OneJob) -> Submitted:
    """Do a dead job again, as a new one."""
    return Submitted(job_id=(await visit.service.redrive(asked.job_id)).id)


@call("discardJob", "POST /v1/jobs/{jobId}/discard", Role.ADMIN)
async def discard_job(visit: Visit, asked: OneJob) -> None:
    """Forget a dead job; the archive keeps what it was."""
    await visit.service.discard(asked.job_id)


class DeadJobs(Asked):
    """Which dead jobs: of a type, with this text in their last error, and how many at most."""

    type: Name | UnsetType = UNSET
    # An empty text fits to all errors.
    error: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    limit: Whole | UnsetType = UNSET


class Count(Told, omit_defaults=False):
    """How many."""

    count: int


@call("redriveMany", "POST /v1/dead/redrive", Role.ADMIN)
async def redrive_many(visit: Visit, asked: DeadJobs) -> Count:
    """Do dead jobs again."""
    kind, error, limit = given(asked.type), given(asked.error), given(asked.limit)
    return Count(count=await visit.lead(lambda queue: queue.redrive_many(kind, error=error, limit=limit)))


@call("discardMany", "POST /v1/dead/discard", Role.ADMIN)
async def discard_many(visit: Visit, asked: DeadJobs) -> Count:
    """Forget dead jobs."""
    kind, error, limit = given(asked.type), given(asked.error), given(asked.limit)
    return Count(count=await visit.lead(lambda queue: queue.discard_many(kind, error=error, limit=limit)))


class RequeueStale(Asked):
    """For how many seconds a worker has been silent."""

    timeout: Annotated[float, Meta(ge=0, le=1e9)]


@call("requeueStale", "POST /v1/requeue-stale", Role.ADMIN)
async def requeue_stale(visit: Visit, asked: RequeueStale) -> Count:
    """Take the jobs of silent workers, sooner than the broker does by itself."""
    silence = timedelta(seconds=asked.timeout)
    return Count(count=await visit.lead(lambda queue: queue.requeue_stale(silence)))


class CollectGarbage(Asked):
    """Whether to look only."""

    dry_run: bool = False


class Collected(Told, omit_defaults=False):
    """The objects that were removed, or would be."""

    removed: list[ObjectTold]


@call("collectGarbage", "POST /v1/collect-garbage", Role.ADMIN)
async def collect_garbage(visit: Visit, asked: CollectGarbage) -> Collected:
    """Remove the objects that nothing refers to."""
    removed = await visit.service.collect_garbage(dry_run=asked.dry_run)
    return Collected(removed=[ObjectTold(**info._asdict()) for info in removed])


CALLS: list[Call] = [
    *(pause, resume, set_limit, get_limits),
    *(redrive_job, discard_job, redrive_many, discard_many),
    *(requeue_stale, collect_garbage),
]
