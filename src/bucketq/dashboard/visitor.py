"""Visitor: somebody who looks at the dashboard, what they may do, and the queue through which they do it.

Whatever they do goes through `queue`, which refuses what their roles do not allow. That a page shows
them no button for it is a courtesy.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bucketq.broker.access import Caller, Role
from bucketq.dashboard.watch import Watch
from bucketq.queue import Queue


@dataclass(eq=False)
class Visitor:
    """Who is here: by which token, if any; with a queue of their own; and what they see."""

    caller: Caller
    queue: Queue
    watch: Watch
    # Whether their token is still good, and means what it meant.
    is_welcome: Callable[[], bool]
    # Counts a request of theirs, from an address; raises TooManyRequestsError.
    knock: Callable[[str], object]
    # What is to be closed when they leave.
    leaving: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def name(self) -> str:
        """The name of their token; empty where there are none."""
        return self.caller.name

    def may(self, role: Role) -> bool:
        """Whether they are this, or more."""
        return self.caller.may(role)
