"""Lookout: waits until there may be something new in the storage.

Where the storage can tell of a change, whoever waits learns of it at once. But a writer that never
rests must not keep those busy for whom it has nothing: looking in vain takes about a hundredth of
their time.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bucketq.clock import Clock
from bucketq.errors import BucketQError
from bucketq.storage.port import ObjectStoragePort, Watch, Watchable

# After a look, so many times as long as it took: half a millisecond for a small queue, 5 ms for 500 KB.
_REST_TIMES = 100
_REST_MIN_S = 0.005
_REST_MAX_S = 0.5
# Where the storage does not tell of changes: a look comes after a fifth of the time since another writer's
# commit was found, so that the next commit is found late by a fifth of the time between the two at most.
_SOON = 0.2
_SOON_S_MIN = 0.05


class Lookout:
    """Waits for what others write to one object."""

    def __init__(self, storage: ObjectStoragePort, clock: Clock) -> None:
        self._watch: Watch | None = storage.watch() if isinstance(storage, Watchable) else None
        self._clock = clock
        self._rested_at_s = self._news_s = float("-inf")

    def news(self) -> None:
        """Another writer's commit was found."""
        self._news_s = self._clock.monotonic_s()

    def within_s(self, at_most_s: float) -> float:
        """After how long the next look is worth its request: soon after news, later and later after that."""
        if self._watch is not None:
            return at_most_s
        return min(at_most_s, max(_SOON_S_MIN, _SOON * (self._clock.monotonic_s() - self._news_s)))

    def has_changed(self, etag: str | None) -> bool:
        """Whether the object has another etag, or may have one; asked only where it costs next to nothing."""
        try:
            return self._watch is not None and self._watch.has_changed(etag)
        except BucketQError:
            return True

    async def wait(self, etag: str | None, within_s: float) -> bool:
        """Wait until the object has another etag; False when the time is up, or if nobody can tell."""
        if self._watch is None:
            await asyncio.sleep(within_s)
            return False
        until_s = self._clock.monotonic_s() + within_s
        try:
            async with asyncio.timeout(within_s):
                await self._watch.changed(etag)
                await asyncio.sleep(self._rested_at_s - self._clock.monotonic_s())
        except Exception:
            # A storage in trouble tells nothing; whoever looks learns what it is.
            await asyncio.sleep(until_s - self._clock.monotonic_s())
            return False
        self._rest(0.0)
        return True

    def wrote(self) -> None:
        """There was something to do, so the next change is worth a look at once."""
        self._rested_at_s = float("-inf")

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Let nobody who waits look again too soon after the look in the block."""
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._rest(_REST_TIMES * (self._clock.monotonic_s() - began_s))

    def _rest(self, rest_s: float) -> None:
        rest_s = min(max(rest_s, _REST_MIN_S), _REST_MAX_S)
        self._rested_at_s = self._clock.monotonic_s() + rest_s

    def close(self) -> None:
        """Let go of what the storage tells by."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
