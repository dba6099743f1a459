"""Allowance: how much clients may ask of a broker, with the reason for each default.

docs/limits.md tells what happens at each limit.
"""

import resource
from dataclasses import dataclass, fields
from typing import Annotated

from bucketq.errors import ConfigurationError

# Files that a broker needs for itself: the storage, its logs, both listeners, and gRPC's own.
_OWN_FILES = 512
_CONNECTIONS_MIN = 64
# One costs up to 50 KB before it has shown a token; by HTTP with TLS 300 KB.
_CONNECTIONS_MAX = 10_000


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What clients may ask. What is more is refused with TooManyRequestsError or TooLargeError.

    >>> Allowance(rate_per_client=100.0).rate_per_client
    100.0
    """

    # One message is in memory as a whole. A client in Python sends no more than 8 MiB at once, or
    # one job; larger payloads come as objects, in pieces.
    message_bytes_max: Annotated[int, "bytes of one message, by any transport"] = 64 * 1024 * 1024

    # Requests that are not answered yet, and answers that are not read yet, of all clients: see `Holdings`.
    # Twice the largest payload, so that two of them fit.
    held_bytes_max: Annotated[int, "bytes held for clients: requests, and unread answers"] = 512 * 1024 * 1024

    # Jobs that one operation adds, claims or settles. One commit takes all of them, and others wait for it.
    batch_max: Annotated[int, "jobs that one call adds, claims or settles"] = 10_000

    # Of each port. 0: half of the files that the process may open, and does not need for itself, but no
    # more than the memory bears: anybody may connect.
    connections_max: Annotated[int, "connections of each port; 0: by open files, up to 10,000"] = 0

    # Calls that wait for a job, for a result, or for events: each costs a few KB and no CPU. One
    # client, which may be many workers with one token, leaves room for others.
    waiting_max: Annotated[int, "calls that wait for a job, a result or events"] = 10_000
    waiting_per_client_max: Annotated[int, "of these, those of one client"] = 5_000

    # Requests a second of one client, and how many of them at once after a rest. 0: no limit; how
    # much is right is known only where the clients are.
    rate_per_client: Annotated[float, "requests a second of one client; 0: no limit"] = 0.0
    burst_per_client: Annotated[int, "requests at once after a rest; 0: those of a second"] = 0

    # Whoever means well sends a header in one piece, and a body as fast as the network is.
    header_within_s: Annotated[float, "seconds for the header of a request, and for TLS to begin"] = 10.0
    body_within_s: Annotated[float, "seconds for its body or its answer without progress"] = 60.0

    # As long as the usual load balancers, so that it is they who close first.
    idle_s: Annotated[float, "seconds after which a connection without a request is closed"] = 75.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value == 0 and field.default != 0):
                raise ConfigurationError(f"{field.name} must be above 0, not {value!r}")

    @property
    def connections(self) -> int:
        """How many connections each port takes."""
        if self.connections_max:
            return self.connections_max
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return min(_CONNECTIONS_MAX, max(_CONNECTIONS_MIN, (files - _OWN_FILES) // 2))


def raise_open_files() -> None:
    """Let this process open as many files, and so connections, as the system grants it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
