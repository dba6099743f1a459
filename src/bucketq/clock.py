"""The two clocks a queue needs, as one thing that a test can replace."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """`now` labels what happened; `monotonic_s` measures how long something took."""

    def now(self) -> datetime:
        """The time of day, in UTC. It may be wrong, and may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment. It never goes back."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()
