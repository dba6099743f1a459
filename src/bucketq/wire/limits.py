"""Limits <-> messages."""

from bucketq.limits import Limit, Limits
from bucketq.v1 import queue_pb2 as pb


def limits_message(limits: Limits) -> pb.LimitsResponse:
    """All limits for the wire."""
    return pb.LimitsResponse(
        is_paused=limits.is_paused,
        paused=limits.paused,
        entrypoints={name: limit_message(limit) for name, limit in limits.entrypoints.items()},
        limit_keys={name: limit_message(limit) for name, limit in limits.limit_keys.items()},
    )


def limits_of(message: pb.LimitsResponse) -> Limits:
    """All limits from the wire."""
    return Limits(
        is_paused=message.is_paused,
        paused=tuple(message.paused),
        entrypoints={name: limit_of(limit) for name, limit in message.entrypoints.items()},
        limit_keys={name: limit_of(limit) for name, limit in message.limit_keys.items()},
    )


def limit_message(limit: Limit) -> pb.Limit:
    """A limit for the wire."""
    return pb.Limit(max_running=limit.max_running, rate=limit.rate, burst=limit.burst)


def limit_of(message: pb.Limit) -> Limit:
    """A limit from the wire."""
    return Limit(
        max_running=message.max_running if message.HasField("max_running") else None,
        rate=message.rate if message.HasField("rate") else None,
        burst=message.burst if message.HasField("burst") else None,
    )
