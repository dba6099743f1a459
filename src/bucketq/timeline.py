"""Timeline: what happened to a job, in order, and what is known of its future.

10:00:00  enqueued
10:00:02  claimed by web-3:4711
10:00:09  failed: ConnectionError: refused
10:00:40  due
10:00:41  claimed by web-1:99
10:00:42  completed
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from bucketq.archived_job import ArchivedJob, FinishedStatus
from bucketq.job import Attempt, Job, JobStatus, Outcome
from bucketq.words import first_line

_WAITING = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.BLOCKED)


class Event(NamedTuple):
    """Something that happened to a job, or will: when, and what, in one line."""

    when: datetime
    what: str


def timeline(job: Job | ArchivedJob) -> list[Event]:
    """What happened to a job, live or archived.

    The order is that of the events, not of their times: these are of the clocks of several machines.
    """
    return list(_events_of_live(job) if isinstance(job, Job) else _events_of_archived(job))


def _events_of_live(job: Job) -> Iterator[Event]:
    held = () if job.claimed_at is None else (Event(job.claimed_at, _claimed_by(job.worker)),)
    yield from _beginning(job, job.history, held)
    if held and job.heartbeat_at is not None and job.heartbeat_at != job.claimed_at:
        yield Event(job.heartbeat_at, f"last heartbeat{_progress(job)}")
    if job.status in _WAITING and job.expires_at is not None:
        yield Event(job.expires_at, "expires")
    if job.status is JobStatus.DEAD and job.history:
        yield Event(job.history[-1].ended_at, "dead")


def _events_of_archived(job: ArchivedJob) -> Iterator[Event]:
    yield from _beginning(job, job.attempts)
    if job.claimed_at is None:
        yield Event(job.finished_at, _with_reason(job.status, job.error))
    elif job.attempts[-1].outcome.value != job.status.value:
        yield Event(job.finished_at, job.status.value)


def _beginning(
    job: Job | ArchivedJob, attempts: Sequence[Attempt], held: Sequence[Event] = ()
) -> Iterator[Event]:
    """From the enqueueing to the last claim; the time that the job waited for stands before the claim."""
    yield Event(job.created_at, f"enqueued, to do {job.redrive_of} again" if job.redrive_of else "enqueued")
    events = [*_tries(attempts), *held]
    if job.run_at is not None and job.run_at > job.created_at:
        place = next((place for place, event in enumerate(events) if event.when >= job.run_at), len(events))
        events.insert(place, Event(job.run_at, "due"))
    yield from events


def _tries(attempts: Sequence[Attempt]) -> Iterator[Event]:
    for attempt in attempts:
        yield Event(attempt.claimed_at, _claimed_by(attempt.worker))
        yield Event(attempt.ended_at, _with_reason(attempt.outcome, attempt.error))


def _claimed_by(worker: str | None) -> str:
    return f"claimed by {worker}" if worker else "claimed"


def _with_reason(outcome: Outcome | FinishedStatus, error: str | None) -> str:
    what = outcome.value.replace("_", " ")
    # Who wants all of it looks at the attempt.
    first = first_line(error)
    if first.startswith(what):
        return first
    return f"{what}: {first}" if first else what


def _progress(job: Job) -> str:
    told = [f"{job.progress:.0%}"] if job.progress is not None else []
    told += [job.note] if job.note else []
    return f": {', '.join(told)}" if told else ""
