"""Rows: what the tables of the dashboard hold. Pure: from jobs and looks to texts."""

from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from bucketq.archived_job import ArchivedJob
from bucketq.job import Job, JobStatus
from bucketq.limits import Limit
from bucketq.live.dead import DeadGroup
from bucketq.live.look import Look
from bucketq.live.rows import NOBODY, EntrypointRow, Filter, WorkerRow, job_rows, seconds_since
from bucketq.live.words import short_id, spell_about, spell_span, spell_status, spell_times
from bucketq.schedule import Schedule
from bucketq.words import first_line, spell_count, spell_moment, spell_time

# Longer lines are cut by the table anyway, and travel for nothing.
_ABOUT_MAX = 300

Row = dict[str, Any]


def jobs_path(**wanted: str | None) -> str:
    """The page of the jobs that are wanted.

    >>> jobs_path(status="dead", text=None, entrypoint="a&b")
    '/jobs?status=dead&entrypoint=a%26b'
    """
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"/jobs?{query}" if query else "/jobs"


def job_path(job_id: str) -> str:
    """The page of one job."""
    return f"/jobs/{quote(job_id, safe='')}"


def job_row(job: Job, now: datetime) -> Row:
    """A job in the queue."""
    return {
        "id": job.id,
        "job": short_id(job.id),
        "path": job_path(job.id),
        "status": spell_status(job),
        "tone": job.status.value,
        "entrypoint": job.entrypoint,
        "span": spell_span(job, now),
        "attempts": f"{job.attempts}/{job.max_attempts}" if job.attempts else "",
        "progress": job.progress,
        "worker": job.worker or (NOBODY if job.status is JobStatus.IN_PROGRESS else ""),
        "note": job.note or "",
        "about": _cut(spell_about(job)),
    }


def finished_row(job: ArchivedJob, now: datetime) -> Row:
    """A job in the archive."""
    took_s = seconds_since(job.claimed_at, job.finished_at) if job.claimed_at else None
    return {
        "id": job.id,
        "job": short_id(job.id),
        "path": job_path(job.id),
        "status": job.status.value,
        "tone": job.status.value,
        "entrypoint": job.entrypoint,
        "span": f"{spell_time(seconds_since(job.finished_at, now))} ago",
        "took": "" if took_s is None else spell_time(took_s),
        "worker": job.worker or "",
        "about": _cut(first_line(job.error)),
    }


def entrypoint_row(row: EntrypointRow, is_queue_paused: bool) -> Row:
    """An entrypoint; it tells which of `pause` and `resume` makes sense."""
    return {
        "id": row.name,
        "path": jobs_path(entrypoint=row.name),
        "queued": spell_count(row.queued),
        "running": spell_count(row.running),
        "running_tone": "in_progress" if row.running else "",
        "scheduled": spell_count(row.scheduled),
        "blocked": spell_count(row.blocked),
        "dead": spell_count(row.dead),
        "dead_tone": "dead" if row.dead else "",
        "dead_path": f"/dead?{urlencode({'entrypoint': row.name})}" if row.dead else "",
        "oldest": "" if row.oldest_wait_s is None else spell_time(row.oldest_wait_s),
        "limit": "" if row.limit is None else _spell_limit(row.limit),
        "state": "paused" if row.is_paused or is_queue_paused else "open",
        "state_tone": "notice" if row.is_paused or is_queue_paused else "",
        "actions": ["resume", "limit"] if row.is_paused else ["pause", "limit"],
    }


def limit_row(key: str, limit: Limit) -> Row:
    """The limit of the jobs with a key."""
    return {"id": key, "limit": _spell_limit(limit)}


def worker_row(row: WorkerRow) -> Row:
    """A worker that holds jobs."""
    return {
        "id": row.name,
        "path": f"/workers?{urlencode({'worker': row.name})}",
        "jobs": f"{row.jobs:,}",
        "heard": f"{spell_time(row.silent_s)} ago",
    }


def running_rows(look: Look, worker: str | None, most: int) -> list[Row]:
    """The jobs that run, those that began first before the others, of one worker or of all."""
    wanted = Filter(status=JobStatus.IN_PROGRESS, worker=worker)
    return [job_row(job, look.at) for job in job_rows(look, wanted)[:most]]


def dead_row(group: DeadGroup, now: datetime) -> Row:
    """Dead jobs with one error."""
    return {
        "id": f"{group.entrypoint}\n{group.error}",
        "entrypoint": group.entrypoint,
        "path": f"/dead?{urlencode({'entrypoint': group.entrypoint, 'error': group.error})}",
        "error": _cut(group.error) or "(no error was told)",
        "jobs": f"{group.jobs:,}",
        "last": f"{spell_time(seconds_since(group.since, now))} ago",
        "newest": short_id(group.newest.id),
        "newest_path": job_path(group.newest.id),
        "error_text": group.error,
        # Without an error there is nothing to choose them by.
        "actions": ["redrive", "discard"] if group.error else [],
    }


def schedule_row(schedule: Schedule, now: datetime) -> Row:
    """A schedule, with its ticks."""
    following = schedule.next_at
    return {
        "id": schedule.name,
        "entrypoint": schedule.job.entrypoint,
        "path": jobs_path(entrypoint=schedule.job.entrypoint),
        "times": spell_times(schedule),
        "next": "never" if following is None else _spell_next(following, now),
        "last": "not yet" if schedule.last_at is None else _spell_near(schedule.last_at, now),
        "missed": schedule.missed.value,
        "payload": _cut(schedule.job.payload.decode(errors="replace")),
        "actions": ["remove"],
    }


def _spell_limit(limit: Limit) -> str:
    # Shorter than elsewhere: beside it there have to be the buttons of its row.
    parts = [f"{limit.max_running} running"] if limit.max_running is not None else []
    parts += [f"{limit.rate:g}/s"] if limit.rate is not None else []
    return ", ".join(parts)


def _spell_next(moment: datetime, now: datetime) -> str:
    return f"in {spell_time(seconds_since(now, moment))}, {_spell_near(moment, now)}"


def _spell_near(moment: datetime, now: datetime) -> str:
    """A moment; one of today is told by its time alone."""
    told = spell_moment(moment)
    date, time = told.split()
    return time if spell_moment(now).startswith(date) else told


def _cut(text: str) -> str:
    return text if len(text) <= _ABOUT_MAX else f"{text[:_ABOUT_MAX]} …"
