"""What governs a queue, as it is told in JSON: limits, pauses, and what was tidied up."""

from collections.abc import Mapping
from datetime import datetime

from bucketq.limits import Limit, Limits
from bucketq.told.shape import Told


class LimitTold(Told):
    """A limit."""

    max_running: int | None = None
    rate: float | None = None
    burst: int | None = None

    @classmethod
    def of(cls, limit: Limit) -> "LimitTold":
        """A limit as it is told."""
        return cls(max_running=limit.max_running, rate=limit.rate, burst=limit.burst)


class LimitsTold(Told, omit_defaults=False):
    """What is paused (`isPaused`: the whole queue), and what is limited."""

    is_paused: bool
    paused: tuple[str, ...]
    types: Mapping[str, LimitTold]
    limit_keys: Mapping[str, LimitTold]

    @classmethod
    def of(cls, limits: Limits) -> "LimitsTold":
        """All limits as they are told."""
        return cls(
            is_paused=limits.is_paused,
            paused=limits.paused,
            types={name: LimitTold.of(limit) for name, limit in limits.entrypoints.items()},
            limit_keys={key: LimitTold.of(limit) for key, limit in limits.limit_keys.items()},
        )


class ObjectTold(Told):
    """An object beside the queue."""

    name: str
    size_bytes: int
    modified_at: datetime
