"""`bucketq schedules`: jobs that are enqueued again and again, by the clock."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bucketq.cli.durations import duration_of
from bucketq.cli.enqueue import payload_of
from bucketq.cli.lines import complain
from bucketq.cli.opened import opened, opened_existing
from bucketq.cli.options import AsJson, Url, argument
from bucketq.cli.told import tell_json, tell_table
from bucketq.errors import ConfigurationError, ScheduleNotFoundError
from bucketq.words import spell_moment

if TYPE_CHECKING:
    from bucketq.schedule import Schedule


def schedules(context: typer.Context, url: Url = "", as_json: AsJson = False) -> None:
    """List the schedules, with their next tick; add and remove them.

    \b
      bucketq schedules add report send_report --cron '30 9 * * MON-FRI'
      bucketq schedules add poll fetch_feed --every 60s
      bucketq schedules
    """
    if name := context.invoked_subcommand:
        if flag := "--url" if url else "--json" if as_json else "":
            raise ConfigurationError(f"pass {flag} after `schedules {name}`, not before {name}")
        return
    import asyncio

    asyncio.run(_list(url, as_json))


async def _list(url: str, as_json: bool) -> None:
    async with opened_existing(url=url) as queue:
        found = await queue.schedules()
    if as_json:
        tell_json([_told(one) for one in found])
    elif found:
        rows = [(one.name, one.job.entrypoint, _times(one), _next(one)) for one in found]
        tell_table(("name", "entrypoint", "times", "next"), rows)
    else:
        print("there are no schedules; `bucketq schedules add` makes one")


async def add(
    name: Annotated[str, argument("NAME", "What it is called; one of the same name is replaced.")],
    entrypoint: Annotated[str, argument("ENTRYPOINT", "Which handler is to do it.")],
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="What it is given, as JSON.")] = "",
    cron: Annotated[str, typer.Option(metavar="TEXT", help="When: '30 9 * * MON-FRI'.")] = "",
    tz: Annotated[str, typer.Option(metavar="ZONE", help="By the clocks of which place.")] = "UTC",
    every: Annotated[str, typer.Option(metavar="TIME", help="Or how often: 90s, 30m, 12h, 7d.")] = "",
    missed: Annotated[
        Literal["skip", "last", "all"], typer.Option(help="Which missed ticks are made up for.")
    ] = "last",
    priority: Annotated[int, typer.Option(metavar="N", help="Lower ones are served first.")] = 0,
    key: Annotated[str, typer.Option(metavar="TEXT", help="Pass over a tick while such a job waits.")] = "",
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Add a schedule, or replace it.

    Each tick adds one job, whoever is there to see it: a broker, or a worker.
    """
    options: Any = {"key": key} if key else {}
    async with opened(url=url) as queue:
        made = await queue.schedule(
            name,
            entrypoint,
            payload_of(payload.encode()),
            priority,
            cron=cron or None,
            tz=tz,
            every=duration_of(every, "--every") if every else None,
            missed=missed,
            **options,
        )
    if as_json:
        tell_json(_told(made))
    else:
        print(f"{made.name}: {_times(made)}, next {_next(made)}")
    return 0


async def remove(
    name: Annotated[str, argument("NAME", "Which schedule.")],
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """End a schedule; what it has enqueued stays."""
    async with opened(url=url) as queue:
        try:
            await queue.unschedule(name)
        except ScheduleNotFoundError:
            there = ", ".join(one.name for one in await queue.schedules()) or "none"
            complain(f"there is no schedule {name!r}; there are: {there}")
            return 1
    if as_json:
        tell_json({"removed": name})
    else:
        print(f"removed: {name}")
    return 0


def _told(schedule: "Schedule") -> object:
    from bucketq.told import ScheduleTold

    return ScheduleTold.of(schedule)


def _times(schedule: "Schedule") -> str:
    from bucketq.live.words import spell_times

    return spell_times(schedule)


def _next(schedule: "Schedule") -> str:
    return spell_moment(schedule.next_at) if schedule.next_at is not None else "never"
