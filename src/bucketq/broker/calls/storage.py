"""What the storage is asked, and how fast, in JSON."""

from msgspec import UNSET, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Call, Visit, call
from bucketq.broker.calls.looking import Nothing
from bucketq.storage import RequestStats
from bucketq.told import SpendingTold, Told


class Requests(Told, omit_defaults=False):
    """Requests of one kind since the broker began. Without a limit there are no tokens."""

    total: int
    waited_total: int
    waited_seconds: float
    refused_total: int
    waiting: int
    limit_per_second: float | UnsetType = UNSET
    tokens: float | UnsetType = UNSET


class Pace(Told, omit_defaults=False):
    """The commits of this broker, and the least time between two. Slow-downs and a budget widen it."""

    commits: int
    operations: int
    conflicts: int
    slow_downs: int
    commit_interval_seconds: float | UnsetType = UNSET
    commit_interval_wanted_seconds: float | UnsetType = UNSET


class ThrottleStats(Told, omit_defaults=False):
    """The pace of the commits, all requests with what they cost, and those that are limited.

    A broker that waits to lead has no interval yet. `throttling` says whether requests are limited. The
    fields from `totalReads` on are those of osqueue.
    """

    pace: Pace
    spending: SpendingTold
    throttling: bool
    reads: Requests | UnsetType = UNSET
    writes: Requests | UnsetType = UNSET
    total_reads: int | UnsetType = UNSET
    total_writes: int | UnsetType = UNSET
    throttled_reads: int | UnsetType = UNSET
    throttled_writes: int | UnsetType = UNSET
    total_read_delay_ms: int | UnsetType = UNSET
    total_write_delay_ms: int | UnsetType = UNSET


@call("getThrottleStats", "GET /v1/throttle-stats", Role.VIEWER)
async def get_throttle_stats(visit: Visit, asked: Nothing) -> ThrottleStats:
    """Tell what the storage was asked, what that costs, who had to wait, and how fast commits follow."""
    broker = visit.service.broker
    figures, glance, throttle = broker.figures, broker.glance(), broker.throttle
    pace = Pace(
        commits=figures.commits,
        operations=figures.operations,
        conflicts=figures.conflicts,
        slow_downs=figures.slow_downs,
        commit_interval_seconds=glance.commit_interval_s if glance else UNSET,
        commit_interval_wanted_seconds=glance.commit_interval_wanted_s if glance else UNSET,
    )
    spending = SpendingTold.of(broker.spending)
    if throttle is None:
        return ThrottleStats(pace=pace, spending=spending, throttling=False)
    reads, writes = throttle.reads, throttle.writes
    return ThrottleStats(
        pace=pace,
        spending=spending,
        throttling={reads.limit_per_s, writes.limit_per_s} != {None},
        reads=_requests(reads),
        writes=_requests(writes),
        total_reads=reads.total,
        total_writes=writes.total,
        throttled_reads=reads.waited_total,
        throttled_writes=writes.waited_total,
        total_read_delay_ms=round(reads.waited_s * 1000),
        total_write_delay_ms=round(writes.waited_s * 1000),
    )


def _requests(stats: RequestStats) -> Requests:
    return Requests(
        total=stats.total,
        waited_total=stats.waited_total,
        waited_seconds=stats.waited_s,
        refused_total=stats.refused_total,
        waiting=stats.waiting,
        limit_per_second=UNSET if stats.limit_per_s is None else stats.limit_per_s,
        tokens=UNSET if stats.tokens is None else stats.tokens,
    )


CALLS: list[Call] = [get_throttle_stats]
