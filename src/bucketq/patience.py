"""Patience: for how long something is tried again, and the growing pauses in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bucketq.clock import Clock
from bucketq.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TooManyRequestsError,
    UnusableStorageError,
)
from bucketq.mint import Mint
from bucketq.retry import Backoff

T = TypeVar("T")


class Patience:
    """One endeavour's share of time, from now on, or from when it was asked for."""

    def __init__(
        self, limit_s: float, backoff: Backoff, clock: Clock, mint: Mint, since_s: float | None = None
    ) -> None:
        self._clock = clock
        self._mint = mint
        self._backoff = backoff
        self.attempts = self._growth = 0
        self._until_s = (clock.monotonic_s() if since_s is None else since_s) + limit_s

    def calm(self) -> None:
        """Let the pauses begin again: it is somebody else who makes progress."""
        self._growth = 0

    def is_exhausted(self) -> bool:
        """Whether the time is up."""
        return self._clock.monotonic_s() >= self._until_s

    async def pause(self, at_least_s: float = 0.0) -> None:
        """Wait before the next try, longer each time, but not beyond the end of the time."""
        delay_s = self._backoff.delay_s(self._growth, self._mint.jitter())
        self.attempts += 1
        self._growth += 1
        left_s = self._until_s - self._clock.monotonic_s()
        await asyncio.sleep(min(max(delay_s, at_least_s), left_s))

    async def insist(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request that may be repeated until it is answered or the time is up."""
        while True:
            try:
                return await request()
            except (UnusableStorageError, ObjectNotFoundError, ObjectExistsError, TooManyRequestsError):
                # The last one comes from a broker, whose clients wait by themselves.
                raise
            except (StorageError, OSError):
                if self.is_exhausted():
                    raise
                await self.pause()
