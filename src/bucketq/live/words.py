"""Words: what jobs, limits and schedules are, in a few characters."""

from datetime import datetime

from bucketq.job import Job, JobStatus
from bucketq.limits import Limit
from bucketq.live.rows import concerned_since, seconds_since
from bucketq.schedule import Schedule
from bucketq.told import readable
from bucketq.words import spell_time

# More of it is nobody's reading; `bucketq show` prints all of it.
_PAYLOAD_SHOWN_MAX = 10_000
# As much of it as a wide line shows.
_PAYLOAD_BEGINS = 200


def spell_status(job: Job) -> str:
    """What a job is doing, in a word."""
    if job.status is JobStatus.IN_PROGRESS:
        return "cancelling" if job.is_cancelled else "running"
    return job.status.value


def short_id(job_id: str) -> str:
    """The end of an id: ids of the same time begin alike."""
    return job_id[-8:]


def spell_span(job: Job, now: datetime) -> str:
    """For how long a job has been what it is, or in what time it is due."""
    since = concerned_since(job)
    if job.status is JobStatus.SCHEDULED and since > now:
        return f"in {spell_time(seconds_since(now, since))}"
    return spell_time(seconds_since(since, now))


def spell_about(job: Job) -> str:
    """What is most worth knowing of a job: who runs it and how far it is, its error, or its payload."""
    if job.status is JobStatus.IN_PROGRESS:
        return " · ".join(one for one in (job.worker, job.note) if one)
    if job.error:
        return job.error
    waits_for = f"after {len(job.after)} others · " if job.after else ""
    return waits_for + job.payload[:_PAYLOAD_BEGINS].decode(errors="replace")


def spell_payload(payload: bytes) -> str:
    """As much of a payload as people read, JSON in lines of its own."""
    text = readable(payload) or payload.decode(errors="replace")
    return text if len(text) <= _PAYLOAD_SHOWN_MAX else f"{text[:_PAYLOAD_SHOWN_MAX]} …"


def spell_limit(limit: Limit) -> str:
    """What is limited.

    >>> spell_limit(Limit(max_running=4, rate=10))
    '4 at the same time; 10 a second, 10 at once'
    """
    parts = [f"{limit.max_running} at the same time"] if limit.max_running is not None else []
    if limit.rate is not None:
        parts.append(f"{limit.rate:g} a second, {limit.tokens_max:g} at once")
    return "; ".join(parts)


def spell_times(schedule: Schedule) -> str:
    """When a schedule ticks."""
    if schedule.cron is None:
        return f"every {schedule.every_s:g} s"
    return f"{schedule.cron} {schedule.tz}"
