"""StillClock: a Clock whose time of day stands still until a test moves it."""

import time
from datetime import datetime

from bucketq.errors import ConfigurationError


class StillClock:
    """Stands at a time of day. Raises ConfigurationError if that has no time zone."""

    def __init__(self, now: datetime) -> None:
        if now.tzinfo is None:
            raise ConfigurationError(f"now is a datetime with its time zone, such as tzinfo=UTC, not {now!r}")
        self._now = now
        self._ahead_s = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic_s(self) -> float:
        # It goes on by itself too: a dequeue that waits is to end.
        return time.monotonic() + self._ahead_s

    def move_to(self, moment: datetime) -> None:
        """Let it be later."""
        self._ahead_s += (moment - self._now).total_seconds()
        self._now = moment
