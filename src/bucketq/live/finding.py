"""Finding: a job by its id, in the queue or in its archive, and its payload."""

from bucketq.archive import Archive
from bucketq.archived_job import ArchivedJob
from bucketq.job import Job
from bucketq.queue import Queue
from bucketq.storage.port import Bucket


async def find_job(queue: Queue, job_id: str) -> Job | ArchivedJob | None:
    """A job wherever it is; None if it is not there (any more)."""
    return await queue.read_job(job_id) or await find_finished(queue, job_id)


async def find_finished(queue: Queue, job_id: str) -> ArchivedJob | None:
    """A job in the archive; None if it is not there, or there is no archive."""
    return await Archive(queue.storage).find(job_id) if isinstance(queue.storage, Bucket) else None


async def fetch_payload(queue: Queue, job: Job | ArchivedJob) -> bytes:
    """The payload of a job, also a large one. Raises ObjectNotFoundError if it is not kept any more."""
    if isinstance(job, Job):
        return await queue.fetch_payload(job)
    return await Archive(queue.storage).fetch_payload(job)
