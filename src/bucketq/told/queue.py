"""How a whole queue stands, in JSON: all that queue.json tells, however many jobs wait beside it."""

from datetime import datetime
from typing import Self

from bucketq.job import JobStatus
from bucketq.state import QueueState
from bucketq.told.shape import Told
from bucketq.told.spending import SpendingTold
from bucketq.told.stats import QueueStats


class BrokerTold(Told):
    """The broker that leads, where clients reach it, and when it last said that it lives."""

    address: str
    epoch: int
    beat_at: datetime
    http: str = ""


class TypeCounts(Told):
    """The jobs of one type."""

    type: str
    queued: int = 0
    scheduled: int = 0
    blocked: int = 0
    in_progress: int = 0
    dead: int = 0
    is_paused: bool = False


class QueueTold(QueueStats, omit_defaults=True):
    """How a queue stands. `oldestAt` is since when the job waits, about, that does so for the longest."""

    version: int
    queue_bytes: int
    segments: int
    types: list[TypeCounts]
    is_paused: bool = False
    oldest_at: datetime | None = None
    leader: BrokerTold | None = None
    # That of the broker that leads, if it was asked.
    spending: SpendingTold | None = None

    @classmethod
    def of_state(cls, state: QueueState) -> Self:
        """The queue as queue.json has it; its backlog need not have been read."""
        leader = state.leader
        return cls.of(
            state.stats,
            leader.http if leader else "",
            version=state.version,
            queue_bytes=state.size,
            segments=len(state.backlog),
            is_paused=state.limits.is_paused,
            types=_types(state),
            oldest_at=min(state.waits().values(), default=None),
            leader=leader
            and BrokerTold(
                address=leader.address, http=leader.http, epoch=leader.epoch, beat_at=leader.beat_at
            ),
        )


def _types(state: QueueState) -> list[TypeCounts]:
    counts = state.counts()
    names = sorted({name for name, _ in counts} | {*state.limits.paused})
    return [
        TypeCounts(
            type=name,
            is_paused=name in state.limits.paused,
            **{status.value: counts[name, status] for status in JobStatus},
        )
        for name in names
    ]
