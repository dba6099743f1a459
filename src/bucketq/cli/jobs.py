"""`bucketq jobs`: list the jobs that wait, run or are dead."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bucketq.cli.durations import duration_of
from bucketq.cli.lines import Line, Screen, column_time, every_second, one_line, tell, tell_more, tell_none
from bucketq.cli.opened import opened, read_existing
from bucketq.cli.options import AsJson, At, Entrypoint, Limit, Url, Watch, one_of, text_option
from bucketq.cli.told import tell_json
from bucketq.words import spell_time

if TYPE_CHECKING:
    from bucketq.job import Job
    from bucketq.queue import Queue

_HEAD = Line(f"{'ID':36}  {'STATUS':11}  {'AGE':>5}  {'TRIES':>5}  ENTRYPOINT", "bold")
_STYLES = {"in_progress": "green", "dead": "red", "scheduled": "cyan", "blocked": "yellow"}


async def jobs(
    at: At = "",
    status: Annotated[
        str,
        typer.Option(
            metavar="STATUS",
            help="One of queued, scheduled, blocked, in_progress, dead.",
            autocompletion=one_of("queued", "scheduled", "blocked", "in_progress", "dead"),
        ),
    ] = "",
    entrypoint: Entrypoint = "",
    older_than: Annotated[
        str,
        text_option("TIME", "Enqueued so long ago, or longer: 90s, 30m, 12h, 7d."),
    ] = "",
    text: Annotated[
        str,
        text_option("TEXT", "It stands in the error, note, payload, key, id or worker."),
    ] = "",
    limit: Limit = 50,
    watch: Watch = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """List the jobs that wait, run or are dead.

    Those that run come first, then each status, in the order in which they will be served. Dead jobs come
    last, by priority and then in the order in which they were enqueued. In a pipe --watch prints a line for
    each change. With --json each job is a line.

    \b
      bucketq jobs --status dead --text timeout
      bucketq jobs --status queued --older-than 1h --json | jq .type
    """
    chosen: dict[str, Any] = {
        "status": status or None,
        "entrypoint": entrypoint or None,
        "older_than": duration_of(older_than, "--older-than") if older_than else None,
        "text": text or None,
    }
    async with opened(at, url) as queue:
        if watch:
            await _watch(queue, chosen, limit, as_json)
        if not await _list(queue, chosen, limit, as_json):
            await read_existing(queue)
            if not as_json:
                tell_none(
                    "no such job waits, runs or is dead; `bucketq archive` lists those that are finished"
                )
    return 0


async def _list(queue: "Queue", chosen: dict[str, Any], limit: int, as_json: bool) -> int:
    now, listed = datetime.now(UTC), 0
    # One more than is shown tells whether there are more.
    async for job in queue.jobs(**chosen, limit=limit + 1 if limit else None):
        if limit and listed == limit:
            tell_more(limit)
            break
        listed += 1
        if as_json:
            _tell_json(job)
            continue
        if listed == 1:
            tell(_HEAD)
        tell(_line(job, now))
    return listed


async def _watch(queue: "Queue", chosen: dict[str, Any], limit: int, as_json: bool) -> None:
    last: dict[str, Job] = {}
    with Screen() as screen:
        async for now in every_second():
            found = [job async for job in queue.jobs(**chosen, limit=limit or None)]
            if screen.is_terminal and not as_json:
                screen.redraw([_HEAD, *(_line(job, now) for job in found)])
                continue
            current = {job.id: job for job in found}
            for job in _changed(last, current):
                _tell_json(job) if as_json else screen.tell(_line(job, now))
            for job_id in _gone(last, found, is_cut=len(found) == limit):
                if as_json:
                    tell_json({"id": job_id, "status": "gone"})
                else:
                    screen.tell(Line(f"{job_id:36}  gone"))
            last = current


def _changed(last: "dict[str, Job]", current: "dict[str, Job]") -> "Iterator[Job]":
    from msgspec.structs import replace

    for job_id, job in current.items():
        before = last.get(job_id)
        # That a worker lives is no news.
        if before is None or replace(before, heartbeat_at=None) != replace(job, heartbeat_at=None):
            yield job


def _gone(last: "dict[str, Job]", found: "list[Job]", *, is_cut: bool) -> "Iterator[str]":
    """The jobs that are not in the list any more; of a list that was cut, not those behind its end."""
    from bucketq.listing import place_of

    current = {job.id for job in found}
    for job_id, job in last.items():
        if job_id not in current and not (is_cut and place_of(job) > place_of(found[-1])):
            yield job_id


def _tell_json(job: "Job") -> None:
    from bucketq.told import JobTold

    tell_json(JobTold.of(job))


def _line(job: "Job", now: datetime) -> Line:
    age = column_time(now - job.created_at)
    tries = f"{job.attempts}/{job.max_attempts}"
    about = _about(job, now)
    text = f"{one_line(job.id):36}  {job.status.value:11}  {age:>5}  {tries:>5}  {one_line(job.entrypoint)}"
    return Line(f"{text}  {about}" if about else text, _STYLES.get(job.status.value, ""))


def _about(job: "Job", now: datetime) -> str:
    """What is most worth knowing of a job at this time."""
    if job.is_cancelled:
        return "is being cancelled"
    if job.progress is not None or job.note:
        percent = f"{job.progress:.0%}" if job.progress is not None else ""
        return " ".join(filter(None, (percent, one_line(job.note))))
    if job.status.value == "scheduled" and job.run_at is not None:
        return f"in {spell_time(job.run_at - now)}"
    if job.after:
        return f"after {len(job.after)} job{'s' if len(job.after) > 1 else ''}"
    return one_line(job.error)
