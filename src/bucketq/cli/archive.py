"""`bucketq archive`: the finished jobs."""

import shutil
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.cli.durations import duration_of
from bucketq.cli.lines import Line, column_time, one_line, tell, tell_more, tell_none
from bucketq.cli.opened import opened, read_existing
from bucketq.cli.options import AsJson, At, Entrypoint, Limit, Url, one_of
from bucketq.cli.told import tell_json, tell_table
from bucketq.errors import ConfigurationError
from bucketq.words import spell_moment

if TYPE_CHECKING:
    from bucketq.archived_job import ArchivedJob

# What a line takes with a whole date in it, and a little for the entrypoint.
_WIDE = 100
_FINISHED = ("completed", "dead", "cancelled", "expired")
_STYLES = {"dead": "red", "cancelled": "yellow", "expired": "yellow"}


async def archive(
    at: At = "",
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Finished from then on: 2h (so long ago), or 2026-02-15T10:00 in UTC."
        ),
    ] = "1d",
    until: Annotated[str, typer.Option(metavar="TIME", help="Finished before: as --since.")] = "",
    entrypoint: Entrypoint = "",
    status: Annotated[
        str,
        typer.Option(
            metavar="STATUS",
            help="One of completed, dead, cancelled, expired.",
            autocompletion=one_of(*_FINISHED),
        ),
    ] = "",
    limit: Limit = 50,
    summary: Annotated[bool, typer.Option("--summary", help="Count them instead.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """List the finished jobs, those that were settled last first.

    With --json each job is a line.

    \b
      bucketq archive --since 7d --status dead --limit 0 --json > dead.jsonl
      bucketq archive --since 1h --summary
    """
    from bucketq.archive import Archive

    now = datetime.now(UTC)
    begin, end = moment_of(since, "--since", now), moment_of(until, "--until", now) if until else None
    if end is not None and end <= begin:
        raise ConfigurationError(f"--since {since} is not before --until {until}: nothing lies between them")
    async with opened(at, url) as queue:
        await read_existing(queue)
        found = Archive(queue.storage).jobs(
            since=begin,
            until=end,
            entrypoint=entrypoint or None,
            status=status or None,
            newest_first=True,
        )
        if summary:
            await _summarise(found, as_json)
        else:
            await _list(found, limit, as_json)
    return 0


def moment_of(text: str, flag: str, now: datetime) -> datetime:
    """A time: so long ago, or an ISO date or time, in UTC if it does not say. Raises ConfigurationError.

    >>> moment_of("2026-02-15", "--since", datetime.now(UTC))
    datetime.datetime(2026, 2, 15, 0, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        given = datetime.fromisoformat(text)
        return given if given.tzinfo else given.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return now - duration_of(text, flag)
    except (ConfigurationError, OverflowError):
        raise ConfigurationError(
            f"{flag} takes how long ago, such as 90s, 30m, 12h or 7d, or a time such as 2026-02-15T10:00,"
            f" not {text!r}"
        ) from None


async def _list(found: "AsyncIterator[ArchivedJob]", limit: int, as_json: bool) -> None:
    from bucketq.told import JobTold

    listed = 0
    async for job in found:
        if limit and listed == limit:
            tell_more(limit)
            return
        listed += 1
        if as_json:
            tell_json(JobTold.of_archived(job))
            continue
        if listed == 1:
            tell(
                Line(
                    f"{'ID':36}  {'STATUS':9}  {'FINISHED':{len(_when(job))}}  {'TOOK':>5}  ENTRYPOINT",
                    "bold",
                )
            )
        tell(_line(job))
    if not listed and not as_json:
        tell_none("no such job has finished in that time; --since 7d looks further back")


def _line(job: "ArchivedJob") -> Line:
    took = "" if job.claimed_at is None else column_time(job.finished_at - job.claimed_at)
    text = f"{one_line(job.id):36}  {job.status.value:9}  {_when(job)}  {took:>5}  {one_line(job.entrypoint)}"
    about = one_line(job.error)
    return Line(f"{text}  {about}" if about else text, _STYLES.get(job.status.value, ""))


def _when(job: "ArchivedJob") -> str:
    """When it finished: whole, but for a narrow terminal, which is to show the entrypoint as well."""
    is_narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE
    return f"{job.finished_at.astimezone(UTC):%m-%d %H:%MZ}" if is_narrow else spell_moment(job.finished_at)


async def _summarise(found: "AsyncIterator[ArchivedJob]", as_json: bool) -> None:
    counts: dict[str, dict[str, int]] = {}
    async for job in found:
        of_type = counts.setdefault(job.entrypoint, dict.fromkeys(_FINISHED, 0))
        of_type[job.status.value] += 1
    if as_json:
        tell_json([{"type": name, **of_type} for name, of_type in sorted(counts.items())])
        return
    rows = [(*of_type.values(), name) for name, of_type in sorted(counts.items())]
    tell_table((*_FINISHED, "entrypoint"), rows)
