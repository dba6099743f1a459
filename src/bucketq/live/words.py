"""Words: what a job is, in a few characters."""

from bucketq.job import Job, JobStatus


def spell_status(job: Job) -> str:
    """What a job is doing, in a word."""
    if job.status is JobStatus.IN_PROGRESS:
        return "cancelling" if job.is_cancelled else "running"
    return job.status.value


def short_id(job_id: str) -> str:
    """The end of an id: ids of the same time begin alike."""
    return job_id[-8:]
