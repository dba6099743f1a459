"""Events: the queue's numbers as they change, for whoever watches (server-sent events).

    event: leader     {"isLeading": true, "address": "broker-1:8420"}     at first
    event: stats      {"total": 3, …}                                     when they have changed
    :                                                                     at times, to keep the line open
    event: leader     {"isLeading": false, "address": "broker-2:8420"}    the last one

They are drawn from what the leader knows, and cost the storage nothing.
"""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta

from bucketq.broker.calls.call import Asked
from bucketq.broker.calls.looking import stats_told
from bucketq.broker.service import Service
from bucketq.told import Told

# Proxies close a line that is silent for long.
_SILENCE_MAX_S = 15.0


class WatchEvents(Asked):
    """How many seconds there are between two events, at least."""

    interval: Annotated[float, Meta(ge=0.1, le=60)] = 1.0


class LeaderTold(Told, omit_defaults=False):
    """Whether this broker leads, and where the one that leads listens, as far as it knows."""

    is_leading: bool
    address: str


async def events(service: Service, asked: WatchEvents) -> AsyncIterator[bytes]:
    """The events, until this broker leads no more."""
    yield _event("leader", _leader(service))
    last, silent_s = b"", 0.0
    while (stats := service.broker.known_stats) is not None:
        content = msgspec.json.encode(stats_told(service, stats))
        if content != last:
            last, silent_s = content, 0.0
            yield b"event: stats\ndata: %b\n\n" % content
        elif silent_s >= _SILENCE_MAX_S:
            silent_s = 0.0
            yield b":\n\n"
        await service.broker.wait_deposed(asked.interval)
        silent_s += asked.interval
    yield _event("leader", _leader(service))


def _leader(service: Service) -> LeaderTold:
    broker = service.broker
    leader = broker.leader
    return LeaderTold(is_leading=broker.is_leading, address=leader.http if leader else "")


def _event(name: str, told: Told) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(told))
