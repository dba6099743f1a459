"""How the queue stands, in JSON."""

from msgspec import Raw

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call
from bucketq.broker.service import Service
from bucketq.state import Stats
from bucketq.told import QueueStats


class Nothing(Asked):
    """Nothing more to say."""


def address_of(service: Service) -> str:
    """Where the broker that leads is reached by HTTP, or nothing."""
    leader = service.broker.leader
    return leader.http if leader else ""


def stats_told(service: Service, stats: Stats) -> QueueStats:
    """Statistics as they are told."""
    return QueueStats.of(stats, address_of(service))


@call("getStats", "GET /v1/stats", Role.VIEWER)
async def get_stats(visit: Visit, asked: Nothing) -> QueueStats:
    """Count the jobs."""
    return stats_told(visit.service, await visit.service.stats())


@call("getState", "GET /state", Role.VIEWER)
async def get_state(visit: Visit, asked: Nothing) -> Raw:
    """Show queue.json itself; without what only an admin may see, unless the caller is one."""
    return Raw(await visit.service.read_object("", visit.caller))


CALLS: list[Call] = [get_stats, get_state]
