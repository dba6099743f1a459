"""Crowd: all connections of an HTTP server, and the account of what they hold."""

from collections import OrderedDict
from typing import Protocol

from uvicorn.server import ServerState

from bucketq.broker.allowance import Allowance
from bucketq.broker.holdings import Holdings


class Idler(Protocol):
    """A connection that has nothing to do."""

    def give_way(self) -> None:
        """Close."""
        ...


class Crowd(ServerState):
    """How many there are, and which of them could go."""

    def __init__(self, allowance: Allowance, holdings: Holdings | None = None) -> None:
        super().__init__()
        self.allowance = allowance
        self.connections_max = allowance.connections
        self.holdings = holdings or Holdings(allowance)
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
