"""When a job is too late, and what is said of one that took too long."""

from datetime import datetime

from bucketq.job import TIMED_OUT, Job


class MoreExpiredError(Exception):
    """Expired jobs stood in line, and there may be more: commit, and come again."""


def is_expired(job: Job, at: datetime) -> bool:
    """Whether the job may not begin any more at this time."""
    return job.expires_at is not None and at >= job.expires_at


def timed_out(job: Job) -> str:
    """The error of an attempt that took longer than it may.

    >>> from datetime import UTC
    >>> timed_out(Job(id="1", entrypoint="mail", timeout_s=30.0, created_at=datetime(2026, 1, 1, tzinfo=UTC)))
    'timed out after 30 s'
    """
    return f"{TIMED_OUT}{job.timeout_s:g} s"
