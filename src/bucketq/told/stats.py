"""How many jobs a queue has, in JSON."""

from typing import Any, Self

from bucketq.state import Stats
from bucketq.told.shape import Told


class QueueCounts(Told, omit_defaults=False):
    """How many jobs there are, and how many were completed since the beginning."""

    total: int
    unclaimed: int
    in_progress: int
    completed_total: int
    broker_address: str

    @staticmethod
    def fields_of(stats: Stats, broker_address: str) -> dict[str, Any]:
        """The fields of these counts, for whatever has them too."""
        return {
            "total": stats.total,
            "unclaimed": stats.queued,
            "in_progress": stats.in_progress,
            "completed_total": stats.completed_total,
            "broker_address": broker_address,
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

    @classmethod
    def of(cls, stats: Stats, broker_address: str, **more: Any) -> Self:
        """Statistics as they are told, with the address of the broker that leads, or an empty one."""
        return cls(
            **cls.fields_of(stats, broker_address),
            queued=stats.queued,
            scheduled=stats.scheduled,
            blocked=stats.blocked,
            dead=stats.dead,
            enqueued_total=stats.enqueued_total,
            dead_total=stats.dead_total,
            cancelled_total=stats.cancelled_total,
            **more,
        )
