"""Crowd: all connections of an HTTP server, and what they have sent that is not done with yet."""

from collections import OrderedDict
from typing import Protocol

from uvicorn.server import ServerState

from bucketq.broker.allowance import Allowance

_SMALL_BYTES = 64 * 1024


class Idler(Protocol):
    """A connection that has nothing to do."""

    def give_way(self) -> None:
        """Close."""
        ...


class Crowd(ServerState):
    """How many there are, and which of them could go."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__()
        self.allowance = allowance
        self.connections_max = allowance.connections
        self._held_bytes = 0
        # Those without a request, longest first.
        self.idle: OrderedDict[Idler, None] = OrderedDict()

    def make_room(self) -> bool:
        """Let the longest idle one give way if need be; tell whether there is room for another one."""
        if len(self.connections) < self.connections_max:
            return True
        if not self.idle:
            return False
        self.idle.popitem(last=False)[0].give_way()
        return True

    def hold(self, size: int, of_one: int = 0) -> bool:
        """Count bytes that came, or, below 0, that are done with; tell whether there is room for them.

        `of_one` are those that the connection holds in all. For a small message there is room always, so
        that a few who send much keep nobody else out; all the small ones together are no danger.
        """
        self._held_bytes += size
        return of_one <= _SMALL_BYTES or self._held_bytes <= self.allowance.held_bytes_max
