"""`bucketq stats`: how many jobs there are and were, and how the queue itself stands."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bucketq.cli.lines import Line, Screen, every_second, one_line, tell
from bucketq.cli.opened import opened, read_existing
from bucketq.cli.options import AsJson, At, Url, Watch
from bucketq.cli.told import tell_json
from bucketq.words import spell_time

if TYPE_CHECKING:
    from bucketq.queue import Queue
    from bucketq.told import QueueTold

_STATUSES = ("queued", "scheduled", "blocked", "in_progress", "dead")


async def stats(
    at: At = "",
    watch: Watch = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Count the jobs, and tell how the queue stands.

    It costs one read of queue.json, however many jobs wait. A broker also tells what its requests cost. In a
    pipe --watch prints a line for each change.
    """
    async with opened(at, url) as queue:
        if watch:
            await _watch(queue, as_json)
        told = await _look(queue)
    if as_json:
        tell_json(told)
    else:
        for line in _lines(told, datetime.now(UTC)):
            tell(line)
    return 0


async def _look(queue: "Queue") -> "QueueTold":
    from bucketq.remote.queue import RemoteQueue
    from bucketq.told import QueueTold, SpendingTold

    told = QueueTold.of_state(await read_existing(queue))
    if isinstance(queue, RemoteQueue):
        # Who only reads a storage does not know what others ask of it.
        told.spending = SpendingTold.of(await queue.fetch_spending())
    return told


async def _watch(queue: "Queue", as_json: bool) -> None:
    last = -1
    with Screen() as screen:
        async for now in every_second():
            told = await _look(queue)
            if screen.is_terminal and not as_json:
                screen.redraw(list(_lines(told, now)))
            elif told.version != last:
                tell_json(told) if as_json else screen.tell(Line(_brief(told, now)))
            last = told.version


def _brief(told: "QueueTold", now: datetime) -> str:
    counts = ", ".join(f"{getattr(told, status)} {status.replace('_', ' ')}" for status in _STATUSES)
    return f"{now:%H:%M:%S}  {counts}, {told.completed_total} completed"


def _lines(told: "QueueTold", now: datetime) -> Iterator[Line]:
    heads = (*_STATUSES, "entrypoint")
    yield Line("  ".join(f"{head.replace('_', ' '):>11}" for head in heads[:-1]) + "  entrypoint", "bold")
    for one in told.types:
        counts = "  ".join(f"{getattr(one, status):>11,}" for status in _STATUSES)
        yield Line(f"{counts}  {one_line(one.type)}{'  (paused)' if one.is_paused else ''}")
    totals = "  ".join(f"{getattr(told, status):>11,}" for status in _STATUSES)
    yield Line(f"{totals}  all", "bold")
    yield Line("")
    oldest = "none waits" if told.oldest_at is None else spell_time(now - told.oldest_at)
    yield Line(f"oldest      {oldest}")
    yield Line(
        f"in total    {told.enqueued_total:,} enqueued, {told.completed_total:,} completed,"
        f" {told.dead_total:,} dead, {told.cancelled_total:,} cancelled"
    )
    yield Line(
        f"file        {told.queue_bytes:,} bytes, version {told.version:,},"
        f" {told.segments:,} segment{'' if told.segments == 1 else 's'} beside it"
    )
    yield Line(f"leader      {_leader(told, now)}")
    if told.spending is not None:
        yield Line(f"cost        {told.spending.spelt()}")
    if told.is_paused:
        yield Line("paused      the whole queue; `bucketq resume` ends it", "yellow")


def _leader(told: "QueueTold", now: datetime) -> str:
    leader = told.leader
    if leader is None:
        return "none: no broker serves this queue"
    http = f", {leader.http} by HTTP" if leader.http else ""
    beat = spell_time(now - leader.beat_at)
    return one_line(f"{leader.address}{http}, epoch {leader.epoch}, heartbeat {beat} ago")
