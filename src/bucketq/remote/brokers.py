"""Brokers: what a client asks of a queue's brokers, and the way to them."""

import logging
from collections.abc import Sequence
from typing import Protocol, TypeVar

from bucketq.account import Spending
from bucketq.ending import Ending
from bucketq.errors import (
    ConfigurationError,
)
from bucketq.loopback import is_loopback
from bucketq.operation import Answers, Operation
from bucketq.storage.port import ObjectInfo, ObjectPage
from bucketq.wanted import Wanted

T = TypeVar("T")

log = logging.getLogger("bucketq")


class UnreachableError(Exception):
    """A broker did not answer; `was_sent` says that it may have got the message all the same."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class Brokers(Protocol):
    """What a client asks of the broker at an address, in whatever language.

    Raises UnreachableError, or the error that the broker refused with.
    """

    async def batch(
        self, address: str, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        """Have a numbered batch applied."""
        ...

    async def wait_ready(self, address: str, wanted: Wanted, timeout_s: float) -> None:
        """Wait until a dequeue may find something, or the time is up."""
        ...

    async def read_object(self, address: str, name: str) -> bytes:
        """Read an object beside the queue, or the queue itself, whose name is empty."""
        ...

    async def create_object(self, address: str, name: str, content: bytes) -> None:
        """Create a segment or a payload."""
        ...

    async def list_objects(self, address: str, prefix: str, after: str) -> ObjectPage:
        """The next of the objects beside the queue whose name begins with `prefix`."""
        ...

    async def collect_garbage(self, address: str, *, dry_run: bool) -> list[ObjectInfo]:
        """Have the objects removed that nothing refers to."""
        ...

    async def spending(self, address: str) -> Spending:
        """Ask what the broker that leads has asked of the storage, and what that costs."""
        ...

    async def find_archived(self, address: str, job_id: str) -> Ending | None:
        """Ask how a job ended that is not in the queue any more."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


def check_way(address: str, token: str | None, *, is_encrypted: bool) -> None:
    """Raise ConfigurationError if a token would travel for everybody to read, or to who knows where.

    >>> check_way("10.0.0.7:7420", None, is_encrypted=False)
    >>> check_way("localhost:7420", "bq_secret", is_encrypted=False)
    """
    # It may be what queue.json says, and whoever wrote that may mean no good.
    if not set(address).isdisjoint("@/?#\\ "):
        raise ConfigurationError(f"{address!r} is no address of a broker; that is host:port")
    if token is not None and not is_encrypted and not is_loopback(address):
        raise ConfigurationError(
            f"the token would travel to {address} unencrypted: connect by grpcs://, https:// or wss://"
        )
