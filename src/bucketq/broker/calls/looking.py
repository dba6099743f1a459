"""How the queue stands, in JSON."""

from typing import Any

from msgspec import Raw

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Told, Visit, call
from bucketq.broker.service import Service
from bucketq.state import Stats


class Nothing(Asked):
    """Nothing more to say."""


class QueueCounts(Told, omit_defaults=False):
    """How many jobs there are, and how many were completed since the beginning."""

    total: int
    unclaimed: int
    in_progress: int
    completed_total: int
    broker_address: str


def counted(service: Service, stats: Stats) -> dict[str, Any]:
    """The fields of QueueCounts."""
    leader = service.broker.leader
    return {
        "total": stats.queued + stats.scheduled + stats.blocked + stats.in_progress + stats.dead,
        "unclaimed": stats.queued,
        "in_progress": stats.in_progress,
        "completed_total": stats.completed_total,
        "broker_address": leader.http if leader else "",
    }


class QueueStats(QueueCounts):
    """How many jobs there are of each status, and were."""

    queued: int
    scheduled: int
    blocked: int
    dead: int
    enqueued_total: int
    dead_total: int
    cancelled_total: int


def stats_told(service: Service, stats: Stats) -> QueueStats:
    """Statistics as they are told."""
    return QueueStats(
        **counted(service, stats),
        queued=stats.queued,
        scheduled=stats.scheduled,
        blocked=stats.blocked,
        dead=stats.dead,
        enqueued_total=stats.enqueued_total,
        dead_total=stats.dead_total,
        cancelled_total=stats.cancelled_total,
    )


@call("getStats", "GET /v1/stats", Role.VIEWER)
async def get_stats(visit: Visit, asked: Nothing) -> QueueStats:
    """Count the jobs."""
    return stats_told(visit.service, await visit.service.stats())


@call("getState", "GET /state", Role.VIEWER)
async def get_state(visit: Visit, asked: Nothing) -> Raw:
    """Show queue.json itself; without what only an admin may see, unless the caller is one."""
    return Raw(await visit.service.read_object("", visit.caller))


CALLS: list[Call] = [get_stats, get_state]
