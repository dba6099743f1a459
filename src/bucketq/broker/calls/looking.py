"""How the queue stands, in JSON."""

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Told, Visit, call


class GetStats(Asked):
    """Nothing more to say."""


class QueueStats(Told, omit_defaults=False):
    """How many jobs there are, and were."""

    total: int
    unclaimed: int
    in_progress: int
    completed_total: int
    broker_address: str


@call("getStats", "GET /v1/stats", Role.VIEWER)
async def get_stats(visit: Visit, asked: GetStats) -> QueueStats:
    """Count the jobs."""
    stats = await visit.service.stats()
    leader = visit.service.leader
    return QueueStats(
        total=stats.queued + stats.scheduled + stats.blocked + stats.in_progress + stats.dead,
        unclaimed=stats.queued,
        in_progress=stats.in_progress,
        completed_total=stats.completed_total,
        broker_address=leader.http if leader else "",
    )


CALLS: list[Call] = [get_stats]
