"""Difference: what happened to a queue between two states of its queue.json.

    what       whom             of whom   how
    enqueued   019b76da-…       mail      queued
    failed     019b76d9-…       mail      by web-3:4711: ConnectionError: refused
    completed  019b76d8-…       mail      by web-1:99
    counter    completed_total            41 -> 42

Only what stands in the two files is looked at. A job that came to a segment of the backlog, or out of
it, is seen to come or go; what happened within the segments is told by their counts.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from bucketq.archived_job import ArchivedJob, decode_archived
from bucketq.job import Attempt, Job, JobStatus
from bucketq.limits import Limit
from bucketq.schedule import Schedule
from bucketq.segment import Segment
from bucketq.state import QueueState
from bucketq.words import first_line, spell_moment

_COUNTERS = ("enqueued_total", "completed_total", "dead_total", "cancelled_total")


class Change(NamedTuple):
    """Something that happened: what, to which job or thing of a name, of which entrypoint, and how."""

    what: str
    name: str
    entrypoint: str = ""
    how: str = ""


def differences(before: QueueState, after: QueueState) -> Iterator[Change]:
    """What happened between two states, jobs first, in the order of their enqueueing.

    Each job in queue.json that is not what it was is named; of equal states nothing is told.
    """
    yield from _of_jobs(before, after)
    yield from _of_segments(before, after)
    yield from _of_batches(before, after)
    yield from _of_schedules(before, after)
    yield from _of_limits(before, after)
    yield from _of_leaders(before, after)
    for name, mark in after.loads.marks.items():
        if before.loads.marks.get(name) != mark:
            yield Change("loaded", name, how=f"up to number {mark.number}")
    for counter in _COUNTERS:
        yield from _counted(counter, getattr(before, counter), getattr(after, counter))
    yield from _counted("archived", *(sum(one.ledger.archived.values()) for one in (before, after)))
    yield from _counted("expired_total", before.ledger.expired_total, after.ledger.expired_total)


def _of_jobs(before: QueueState, after: QueueState) -> Iterator[Change]:
    old, new = ({job.id: job for job in state.jobs} for state in (before, after))
    ended = _ended(before, after)
    for job in sorted((old | new).values(), key=lambda job: job.sequence):
        was, now = old.get(job.id), new.get(job.id)
        if was is None and now is not None:
            yield _arrival(now, is_new=now.sequence > before.sequence)
        elif was is not None and now is None:
            yield _ending(ended[was.id]) if was.id in ended else _departure(was, before, after)
        elif was is not None and now is not None and was != now:
            yield from _between(was, now)
    yield from (_ending(job) for job in ended.values() if job.id not in old and job.id not in new)


def _ended(before: QueueState, after: QueueState) -> dict[str, ArchivedJob]:
    """The jobs that were finished since, and are still on their way to the archive."""
    known = set(before.ledger.lines())
    finished = [decode_archived(line) for line in after.ledger.lines() if line not in known]
    return {job.id: job for job in finished}


def _arrival(job: Job, *, is_new: bool) -> Change:
    if not is_new:
        return Change("returned", job.id, job.entrypoint, f"from a segment; {_standing(job)}")
    again = f", to do {job.redrive_of} again" if job.redrive_of else ""
    return Change("enqueued", job.id, job.entrypoint, _standing(job) + again)


def _ending(job: ArchivedJob) -> Change:
    return Change(job.status.value, job.id, job.entrypoint, _by(job.worker, job.error))


def _departure(job: Job, before: QueueState, after: QueueState) -> Change:
    was_archived = before.ledger.archived != after.ledger.archived
    may_be_in_segment = any(True for _ in after.backlog.may_hold(job.id))
    if may_be_in_segment and was_archived:
        return Change("gone", job.id, job.entrypoint, "to a segment, or finished and archived")
    if may_be_in_segment:
        return Change("spilled", job.id, job.entrypoint, "to a segment")
    if job.status is JobStatus.DEAD:
        return Change("gone", job.id, job.entrypoint, "redriven, or discarded")
    return Change("gone", job.id, job.entrypoint, "finished, and archived" if was_archived else "finished")


def _between(was: Job, now: Job) -> Iterator[Change]:
    """What happened to a job that is still there."""
    changes = list(_steps(was, now))
    if not changes:
        names = [name for name in now.__struct_fields__ if getattr(was, name) != getattr(now, name)]
        changes = [("changed", ", ".join(names))]
    for what, how in changes:
        yield Change(what, now.id, now.entrypoint, how)


def _steps(was: Job, now: Job) -> Iterator[tuple[str, str]]:
    for attempt in now.history:
        if attempt not in was.history:
            yield _tried(attempt)
    if now.token != was.token and now.token is not None:
        yield "claimed", f"{_by(now.worker)}, attempt {now.attempts}".removeprefix(", ")
    if now.status is not was.status and now.status is not JobStatus.IN_PROGRESS:
        yield _turned(was, now)
    if now.is_cancelled and not was.is_cancelled:
        yield "cancelled", "its worker is to stop"
    if (now.progress, now.note) != (was.progress, was.note) and now.token is not None:
        told = f"{now.progress:.0%} {now.note or ''}" if now.progress is not None else now.note or ""
        yield "progress", told.strip()
    elif now.heartbeat_at != was.heartbeat_at and now.token == was.token is not None:
        yield "heartbeat", _moment(now.heartbeat_at)


def _tried(attempt: Attempt) -> tuple[str, str]:
    return attempt.outcome.value.replace("_", " "), _by(attempt.worker, attempt.error)


def _turned(was: Job, now: Job) -> tuple[str, str]:
    if now.status is JobStatus.QUEUED and was.status in (JobStatus.SCHEDULED, JobStatus.BLOCKED):
        return "ready", f"was {was.status.value}"
    return _standing(now).partition(" ")[0], _standing(now).partition(" ")[2]


def _standing(job: Job) -> str:
    match job.status:
        case JobStatus.IN_PROGRESS:
            return f"claimed {_by(job.worker)}".rstrip()
        case JobStatus.SCHEDULED:
            return f"scheduled for {_moment(job.run_at)}"
        case JobStatus.BLOCKED:
            return f"blocked by {len(job.after)}"
        case JobStatus.DEAD:
            return f"dead {first_line(job.error)}".rstrip()
    return job.status.value


def _of_segments(before: QueueState, after: QueueState) -> Iterator[Change]:
    old, new = ({segment.name: segment for segment in state.backlog} for state in (before, after))
    for name, segment in (old | new).items():
        if name not in old:
            yield _segment(segment, f"{segment.count} {segment.status.value} jobs, new")
        elif name not in new:
            yield _segment(segment, f"{segment.count} {segment.status.value} jobs, gone")
        elif old[name] != segment:
            yield _segment(segment, _segment_changes(old[name], segment))


def _segment_changes(was: Segment, now: Segment) -> str:
    told = [f"{was.count} -> {now.count} jobs"] if was.count != now.count else []
    if was.hold is None and now.hold is not None:
        told.append(f"claimed {_by(now.hold.worker)}".rstrip())
    elif was.hold is not None and now.hold is None:
        told.append("given back")
    elif was.hold != now.hold:
        told.append("heartbeat")
    return ", ".join(told) or "changed"


def _segment(segment: Segment, how: str) -> Change:
    return Change("segment", segment.name, segment.entrypoint, how)


def _of_batches(before: QueueState, after: QueueState) -> Iterator[Change]:
    old, new = dict(before.batches), dict(after.batches)
    for name in old | new:
        was, now = old.get(name), new.get(name)
        if now is None:
            yield Change("batch", name, how="over")
        elif was is None:
            yield Change("batch", name, how=f"{now.total} jobs, new")
        elif was != now:
            yield Change("batch", name, how=f"{was.left} -> {now.left} left, {now.failed} failed")


def _of_schedules(before: QueueState, after: QueueState) -> Iterator[Change]:
    old, new = ({one.name: one for one in state.schedules} for state in (before, after))
    for name, schedule in (old | new).items():
        was, now = old.get(name), new.get(name)
        if was != now:
            yield Change("schedule", name, schedule.job.entrypoint, _schedule_changes(was, now))


def _schedule_changes(was: Schedule | None, now: Schedule | None) -> str:
    if now is None:
        return "removed"
    if was is None:
        return f"added, next {_moment(now.next_at)}"
    if now.last_at != was.last_at:
        return f"fired for {_moment(now.last_at)}, next {_moment(now.next_at)}"
    return f"changed, next {_moment(now.next_at)}"


def _of_limits(before: QueueState, after: QueueState) -> Iterator[Change]:
    was, now = before.limits, after.limits
    if was.is_paused != now.is_paused:
        yield Change("paused" if now.is_paused else "resumed", "the whole queue")
    yield from (Change("paused", name) for name in now.paused if name not in was.paused)
    yield from (Change("resumed", name) for name in was.paused if name not in now.paused)
    yield from _limited("limit", was.entrypoints, now.entrypoints)
    yield from _limited("limit of key", was.limit_keys, now.limit_keys)


def _limited(what: str, was: Mapping[str, Limit], now: Mapping[str, Limit]) -> Iterator[Change]:
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            yield Change(what, name, how=_limit(now.get(name)))


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return "removed"
    told = [f"max_running {limit.max_running}"] if limit.max_running is not None else []
    told += [f"rate {limit.rate:g}, burst {limit.tokens_max:g}"] if limit.rate is not None else []
    return ", ".join(told)


def _of_leaders(before: QueueState, after: QueueState) -> Iterator[Change]:
    was, now = before.leader, after.leader
    if (was and was.broker) == (now and now.broker) and before.epoch == after.epoch:
        return
    if now is None:
        yield Change("leader", was.address if was else "", how="left; nobody leads")
    else:
        yield Change("leader", now.address, how=f"epoch {now.epoch}{f', after {was.address}' if was else ''}")


def _counted(name: str, was: int, now: int) -> Iterator[Change]:
    if was != now:
        yield Change("counter", name, how=f"{was} -> {now}")


def _by(worker: str | None, error: str | None = None) -> str:
    by = f"by {worker}" if worker else ""
    return ": ".join(filter(None, (by, first_line(error))))


def _moment(moment: datetime | None) -> str:
    return spell_moment(moment) if moment is not None else "never"
