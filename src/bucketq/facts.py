"""Facts: what is known of a job, beside what happened to it, for whoever shows one to people."""

from collections.abc import Iterator

from bucketq.archived_job import ArchivedJob
from bucketq.job import Job

Fact = tuple[str, str]


def facts(job: Job | ArchivedJob) -> Iterator[Fact]:
    """What there is to say of a job, live or archived, each with its name."""
    yield from _facts_of_live(job) if isinstance(job, Job) else _facts_of_archived(job)
    yield from _given(
        priority=job.priority,
        worker=job.worker,
        key=job.key,
        tenant=job.tenant,
        limit_key=job.limit_key,
        redrive_of=job.redrive_of,
        traceparent=job.traceparent,
    )


def _facts_of_live(job: Job) -> Iterator[Fact]:
    yield "attempts", f"{job.failures} of {job.max_attempts}, crashes {job.crashes} of {job.max_crashes}"
    if job.progress is not None:
        yield "progress", f"{job.progress:.0%}"
    yield from _given(
        note=job.note,
        cancelled=job.is_cancelled and "its worker is told by its next heartbeat",
        after=", ".join(job.after),
        timeout=job.timeout_s and f"{job.timeout_s:g} s",
        batch=job.batch,
        # Else it is told with the attempts.
        error=not job.history and job.error,
    )


def _facts_of_archived(job: ArchivedJob) -> Iterator[Fact]:
    yield "attempts", str(job.attempts_total)
    yield from _given(batch=job.job_batch)


def _given(**values: object) -> Iterator[Fact]:
    return ((name.replace("_", " "), str(value)) for name, value in values.items() if value)
