"""Words: what a job is and how far it has got, in a few characters."""

from bucketq.job import Job, JobStatus

_BAR = 4


def spell_progress(progress: float | None) -> str:
    """A bar, and how much of it is full.

    >>> spell_progress(0.4)
    '━╸    40%'
    """
    if progress is None:
        return ""
    halves = round(max(0.0, min(1.0, progress)) * 2 * _BAR)
    bar = "━" * (halves // 2) + "╸" * (halves % 2)
    return f"{bar:<{_BAR}} {progress:>4.0%}"


def spell_status(job: Job) -> str:
    """What a job is doing, in a word."""
    if job.status is JobStatus.IN_PROGRESS:
        return "cancelling" if job.is_cancelled else "running"
    return job.status.value


def short_id(job_id: str) -> str:
    """The end of an id: ids of the same time begin alike."""
    return job_id[-8:]
