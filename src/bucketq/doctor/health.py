"""Health: what a queue's state tells about how it is, without any I/O.

Ages are by this machine's clock against the time stamps of others, so they are rough.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from bucketq.doctor.finding import Finding, Level
from bucketq.job import Job, JobStatus
from bucketq.settings import Settings
from bucketq.state import QueueState
from bucketq.words import spell_size, spell_time

_ABOUT = "queue"
_SIZE = "queue.json"
_WAITING = "waiting jobs"
_RUNNING = "running jobs"

# Of queue_bytes_max: when to look, and when it is about to refuse new work.
_LARGE, _FULL = 0.5, 0.9
# A job that nobody has taken for so long, of an entrypoint that nobody serves.
_UNSERVED = timedelta(minutes=10)
_CRASHES = 2
# A few batches are on their way at any time.
_SEALED_MAX = 4
_NAMED_MAX = 3


def diagnose(state: QueueState, size_bytes: int, settings: Settings, now: datetime) -> Iterator[Finding]:
    """Tell how a queue is; `size_bytes` is that of its queue.json."""
    yield _counts(state)
    yield _size(state, size_bytes, settings)
    yield from _pauses(state)
    yield from _waiting(state, now)
    yield from _stuck(state, settings, now)
    yield from _crashing(state)
    yield from _dead(state)
    yield from _archive(state, settings, now)


def _counts(state: QueueState) -> Finding:
    stats = state.stats
    parts = {
        "waiting": stats.queued,
        "for later": stats.scheduled,
        "blocked": stats.blocked,
        "running": stats.in_progress,
        "dead": stats.dead,
    }
    told = ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "no jobs"
    segments = len(state.backlog)
    beside = f"; {segments} segments of them beside queue.json" if segments else ""
    return Finding(_ABOUT, Level.OK, f"version {state.version}: {told}{beside}")


def _size(state: QueueState, size_bytes: int, settings: Settings) -> Finding:
    part = size_bytes / settings.queue_bytes_max
    found = f"{spell_size(size_bytes)}, {part:.1%} of queue_bytes_max, and rewritten by every commit"
    if part < _LARGE:
        return Finding(_SIZE, Level.OK, found)
    advice = (
        f"Running, blocked and finished jobs make it large: {state.stats.in_progress} run,"
        f" {state.stats.blocked} are blocked. Let workers claim fewer at once, and keep payloads small."
    )
    return Finding(_SIZE, Level.PROBLEM if part >= _FULL else Level.WARNING, found, advice)


def _pauses(state: QueueState) -> Iterator[Finding]:
    if state.limits.is_paused:
        advice = "`bucketq resume` ends it."
        yield Finding("pauses", Level.WARNING, "the whole queue is paused: no job begins", advice)
    for entrypoint in state.limits.paused:
        found = f"{entrypoint} is paused; {state.waiting(entrypoint)} of its jobs wait"
        yield Finding("pauses", Level.NOTE, found, f"`bucketq resume {entrypoint}` ends it.")


def _waiting(state: QueueState, now: datetime) -> Iterator[Finding]:
    oldest: dict[str, Job] = {}
    for job in state.queued_jobs():
        known = oldest.get(job.entrypoint)
        if known is None or _since(job) < _since(known):
            oldest[job.entrypoint] = job
    if not oldest:
        return
    first = min(oldest.values(), key=_since)
    found = f"the oldest, {_named(first)}, has waited for {spell_time(now - _since(first))}"
    yield Finding(_WAITING, Level.OK, found)
    running = {job.entrypoint for job in state.in_progress_jobs()}
    running |= {segment.entrypoint for segment, _ in state.backlog.held().values()}
    for entrypoint, job in sorted(oldest.items()):
        # One that is limited may be waiting for its turn.
        is_slow = entrypoint in state.limits.entrypoints or state.limits.pauses(entrypoint)
        if entrypoint not in running and not is_slow and now - _since(job) > _UNSERVED:
            yield Finding(
                _WAITING,
                Level.WARNING,
                f"nobody works on {entrypoint}: {state.waiting(entrypoint)} wait, the oldest for"
                f" {spell_time(now - _since(job))}, and none runs",
                "Start a worker that knows this entrypoint: `bucketq work`.",
            )


def _stuck(state: QueueState, settings: Settings, now: datetime) -> Iterator[Finding]:
    limit = timedelta(seconds=settings.stale_after_s)
    silent = [one for one in _beats(state) if now - one.at > limit]
    if silent:
        first = min(silent, key=lambda one: one.at)
        yield Finding(
            _RUNNING,
            Level.WARNING,
            f"{sum(one.jobs for one in silent)} have shown no sign of life for over {spell_time(limit)},"
            f" such as {first.named} of worker {first.worker} for {spell_time(now - first.at)}",
            "An open queue, a worker or a broker, gives them to others by itself. Is one there?",
        )
    elif state.stats.in_progress:
        found = f"all {state.stats.in_progress} have shown a sign of life within {spell_time(limit)}"
        yield Finding(_RUNNING, Level.OK, found)


class _Beat(NamedTuple):
    """The last sign of life of a worker that holds a job, or all jobs of a segment."""

    at: datetime
    jobs: int
    named: str
    worker: str | None


def _beats(state: QueueState) -> Iterator[_Beat]:
    for job in state.in_progress_jobs():
        if job.heartbeat_at is not None:
            yield _Beat(job.heartbeat_at, 1, _named(job), job.worker)
    for segment, hold in state.backlog.held().values():
        named = f"a whole segment ({segment.entrypoint})"
        yield _Beat(hold.heartbeat_at, segment.count, named, hold.worker)


def _crashing(state: QueueState) -> Iterator[Finding]:
    crashing = [job for job in state.jobs if job.crashes >= _CRASHES and job.status is not JobStatus.DEAD]
    if crashing:
        yield Finding(
            "crashes",
            Level.WARNING,
            f"{len(crashing)} jobs have lost {_CRASHES} workers or more: {_listed(crashing)}",
            "Does their work kill the process, as by its memory? `bucketq show ID` tells their attempts.",
        )


def _dead(state: QueueState) -> Iterator[Finding]:
    if not state.stats.dead:
        return
    dead = (
        (name, count) for (name, status), count in state.counts().most_common() if status is JobStatus.DEAD
    )
    told = ", ".join(f"{count} of {name}" for name, count in islice(dead, _NAMED_MAX))
    advice = (
        "`bucketq jobs --status dead` lists them with their errors, `bucketq redrive --entrypoint NAME` runs"
        " them again."
    )
    found = f"{state.stats.dead} have used up their attempts: {told}"
    yield Finding("dead jobs", Level.WARNING, found, advice)


def _archive(state: QueueState, settings: Settings, now: datetime) -> Iterator[Finding]:
    ledger = state.ledger
    waiting = len(ledger.finished) + sum(batch.total for batch in ledger.sealed.values())
    late = timedelta(seconds=2 * settings.archive_after_s)
    if len(ledger.sealed) > _SEALED_MAX:
        yield Finding(
            "archive",
            Level.WARNING,
            f"{len(ledger.sealed)} batches of {waiting} finished jobs have not got there, and make every"
            " commit larger",
            "Whoever writes the queue must be allowed to create objects beside it; its log tells why not.",
        )
    elif ledger.is_older_than(now - late):
        yield Finding(
            "archive",
            Level.NOTE,
            f"{len(ledger.finished)} finished jobs wait for it, the first for over {spell_time(late)}",
            "They get there as soon as somebody works on the queue again.",
        )


def _since(job: Job) -> datetime:
    return job.run_at or job.created_at


def _named(job: Job) -> str:
    return f"{job.id} ({job.entrypoint})"


def _listed(jobs: list[Job]) -> str:
    more = f" and {len(jobs) - _NAMED_MAX} more" if len(jobs) > _NAMED_MAX else ""
    return ", ".join(map(_named, jobs[:_NAMED_MAX])) + more
