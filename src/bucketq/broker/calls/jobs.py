"""Jobs, in JSON: submitted, looked at, cancelled; and what they came to."""

from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.archived_job import ArchivedJob
from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call, given
from bucketq.broker.calls.looking import address_of
from bucketq.broker.calls.new_job import NewJob
from bucketq.broker.calls.shapes import Name, Wait
from bucketq.broker.holdings import announced
from bucketq.broker.served import ServedQueue
from bucketq.errors import JobNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.listing import PAGE_SIZE, PAGE_SIZE_MAX
from bucketq.told import JobTold, ListedJob, QueueCounts, Status, Told, told_result


class Submitted(Told):
    """The id of the job; with a `key` it may be that of an earlier one."""

    job_id: str


@call("submitJob", "POST /v1/jobs", Role.PRODUCER)
async def submit_job(visit: Visit, asked: NewJob) -> Submitted:
    """Add a job."""
    content, options = asked.content, asked.options
    job = await visit.lead(lambda queue: queue.enqueue(asked.type, content, asked.priority, **options))
    return Submitted(job_id=job.id)


class ListJobs(Asked):
    """Which jobs, and which page of them."""

    status: JobStatus | UnsetType = UNSET
    type: Name | UnsetType = UNSET
    page_size: Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)] = PAGE_SIZE
    page_token: Annotated[str, Meta(pattern=r"^(-?\d{1,18}(\.-?\d{1,18}){3})?$")] = ""


class JobPage(QueueCounts, omit_defaults=True):
    """Some jobs, and the counts of the whole queue. `nextPageToken` asks for the next ones."""

    jobs: list[ListedJob]
    next_page_token: str = ""


@call("listJobs", "GET /v1/jobs", Role.VIEWER)
async def list_jobs(visit: Visit, asked: ListJobs) -> JobPage:
    """List the jobs that wait, run or are dead: those that run first, then each status in its order."""
    # The jobs last: whatever waits while it holds a page holds up others' memory.
    stats = await visit.service.stats()
    page = await visit.service.list_jobs(
        given(asked.status),
        given(asked.type),
        asked.page_size,
        asked.page_token,
        visit.caller,
    )
    counts = QueueCounts.fields_of(stats, address_of(visit.service))
    return JobPage(**counts, jobs=list(map(ListedJob.of, page.jobs)), next_page_token=page.next_token)


class OneJob(Asked):
    """Which job."""

    job_id: str = ""


async def _found(queue: ServedQueue, job_id: str) -> Job | ArchivedJob:
    found = await queue.find(job_id) or await queue.find_in_archive(job_id)
    if found is None:
        raise JobNotFoundError(job_id, f"job {job_id} is neither in the queue nor in its archive")
    return found


@call("getJob", "GET /v1/jobs/{jobId}", Role.VIEWER)
async def get_job(visit: Visit, asked: OneJob) -> JobTold:
    """Show a job with its attempts, also a finished one, as long as the archive keeps it."""

    async def find(queue: ServedQueue) -> JobTold:
        found = await _found(queue, asked.job_id)
        return JobTold.of(found) if isinstance(found, Job) else JobTold.of_archived(found)

    return await visit.lead(find)


@call("getPayload", "GET /v1/jobs/{jobId}/payload", Role.VIEWER)
async def get_payload(visit: Visit, asked: OneJob) -> bytes:
    """Get a job's payload as it is, also a large one, as long as it is kept. Over WebSocket it is base64."""

    async def fetch(queue: ServedQueue) -> bytes:
        found = await _found(queue, asked.job_id)
        with announced():
            if isinstance(found, Job):
                return await queue.fetch_payload(found)
            return await queue.archive.fetch_payload(found)

    return await visit.lead(fetch)


class GetResult(OneJob):
    """Which job, and for how many seconds to wait until it is finished."""

    wait: Wait = 0.0


class JobResult(Told):
    """How the job ended; or, if it has not, its status now.

    `result` is what its worker gave, `error` why it is dead, cancelled or expired.
    """

    status: Status
    result: Raw | UnsetType = UNSET
    error: str | None = None


@call("getResult", "GET /v1/jobs/{jobId}/result", Role.VIEWER)
async def get_result(visit: Visit, asked: GetResult) -> JobResult:
    """Tell what a job came to, and wait for it if need be."""
    found = await visit.lead(lambda queue: queue.look_up(asked.job_id, asked.wait))
    if isinstance(found, Job):
        return JobResult(status=found.status.value)
    return JobResult(status=found.status.value, result=told_result(found.result), error=found.error)


@call("cancelJob", "POST /v1/jobs/{jobId}/cancel", Role.PRODUCER)
async def cancel_job(visit: Visit, asked: OneJob) -> JobTold:
    """Cancel a job. One that waits is gone at once; of one that runs the worker is told by its heartbeat."""
    return JobTold.of(await visit.service.cancel(asked.job_id))


CALLS: list[Call] = [submit_job, list_jobs, get_job, get_payload, get_result, cancel_job]
