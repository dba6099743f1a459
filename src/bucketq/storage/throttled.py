"""ThrottledStorage: no more requests a second than a storage allows, or than its bill should show.

    queue.json  ──▶ one line ──┐                            ┌──▶ the storage
                               ├─ by turns ─▶ token bucket ─┤
    the objects ──▶ one line ──┘                            └──  one for reads, one for writes

Each waits in its line. While both lines wait they take turns: a thousand payloads must not hold
up the next commit, which carries heartbeats, and a queue that never rests must not keep its
segments and its archive from being written. So a commit gets at least every second write.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum

from bucketq.clock import Clock, SystemClock
from bucketq.errors import SlowDownError
from bucketq.storage.port import Bucket, ObjectInfo, Objects, Provable, Watchable, describe, endpoint_of
from bucketq.token_bucket import TokenBucket

# Those ahead may have gone away meanwhile; and whoever oversleeps its turn holds up the other line.
_SLEEP_AT_MOST_S = 1.0


@dataclass(frozen=True, kw_only=True)
class RequestStats:
    """The requests of one kind since the storage was opened: reads, or writes."""

    # Those that were sent, and those of them that had to wait first.
    total: int
    waited_total: int
    waited_s: float
    # Answered with "slow down" by the storage itself.
    refused_total: int
    # Right now: those in line, and how many more could go at once. None: there is no limit.
    waiting: int
    tokens: float | None
    limit_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class ThrottleStats:
    """What a throttled storage was asked, and who had to wait."""

    reads: RequestStats
    writes: RequestStats


class ThrottledStorage:
    """Another storage, with a limit on its reads and on its writes a second; 0 is no limit.

        storage = ThrottledStorage(open_storage("gs://bucket/jobs.json"), writes_per_s=1)
        async with BrokerQueue(storage) as q:
            ...

    Requests for queue.json and for the objects beside it count alike. A list is a read, a
    delete is a write. After a rest, `burst` of them go at once; by default those of one second.
    Callers wait for their turn and see no error. Raises ConfigurationError for numbers that
    make no sense.
    """

    def __init__(
        self,
        storage: Bucket,
        *,
        reads_per_s: float = 0.0,
        writes_per_s: float = 0.0,
        burst: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.url = describe(storage)
        self.endpoint_url = endpoint_of(storage)
        self._storage = storage
        self._reads = _Gate(reads_per_s, burst, clock)
        self._writes = _Gate(writes_per_s, burst, clock)
        self.objects = ThrottledObjects(storage.objects, self._reads, self._writes)
        if isinstance(storage, Watchable):
            # A watch sends no requests.
            self.watch = storage.watch
        if isinstance(storage, Provable):
            # Five requests, once in a process.
            self.prove = storage.prove

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._storage!r})"

    @property
    def stats(self) -> ThrottleStats:
        """What was asked so far."""
        return ThrottleStats(reads=self._reads.stats, writes=self._writes.stats)

    async def read(self) -> tuple[bytes, str | None]:
        async with self._reads.turn(_Line.QUEUE):
            return await self._storage.read()

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        async with self._reads.turn(_Line.QUEUE):
            return await self._storage.read_if_changed(etag)

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        async with self._writes.turn(_Line.QUEUE):
            return await self._storage.write(content, if_match)


class ThrottledObjects:
    """The objects beside a throttled queue."""

    def __init__(self, objects: Objects, reads: "_Gate", writes: "_Gate") -> None:
        self._objects = objects
        self._reads = reads
        self._writes = writes

    async def read(self, name: str) -> bytes:
        async with self._reads.turn(_Line.OBJECTS):
            return await self._objects.read(name)

    async def create(self, name: str, content: bytes) -> None:
        async with self._writes.turn(_Line.OBJECTS):
            await self._objects.create(name, content)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        async with self._reads.turn(_Line.OBJECTS):
            async for info in self._objects.list(prefix):
                yield info

    async def delete(self, name: str) -> None:
        async with self._writes.turn(_Line.OBJECTS):
            await self._objects.delete(name)


class _Line(IntEnum):
    QUEUE = 0
    OBJECTS = 1


class _Gate:
    """Lets requests of one kind through, in order. Any thread may ask, so a lock guards all of it."""

    def __init__(self, per_s: float, burst: float | None, clock: Clock) -> None:
        self._bucket = TokenBucket(per_s, burst) if per_s else None
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: tuple[deque[object], deque[object]] = (deque(), deque())
        self._went_last = _Line.OBJECTS
        self._total = self._waited_total = self._refused_total = 0
        self._waited_s = 0.0

    @asynccontextmanager
    async def turn(self, line: _Line) -> AsyncIterator[None]:
        """Wait for one's turn; the block sends the request."""
        if self._bucket is not None:
            await self._wait(self._bucket, line)
        with self._lock:
            self._total += 1
        try:
            yield
        except SlowDownError:
            with self._lock:
                self._refused_total += 1
            raise

    @property
    def stats(self) -> RequestStats:
        with self._lock:
            return RequestStats(
                total=self._total,
                waited_total=self._waited_total,
                waited_s=self._waited_s,
                refused_total=self._refused_total,
                waiting=sum(map(len, self._lines)),
                tokens=self._bucket.at_hand(self._clock.monotonic_s()) if self._bucket else None,
                limit_per_s=self._bucket.per_s if self._bucket else None,
            )

    async def _wait(self, bucket: TokenBucket, line: _Line) -> None:
        ticket, began_s = object(), self._clock.monotonic_s()
        with self._lock:
            self._lines[line].append(ticket)
        is_late = False
        try:
            while (wait_s := self._until_turn_s(bucket, line, ticket)) > 0:
                is_late = True
                await asyncio.sleep(min(wait_s, _SLEEP_AT_MOST_S))
        finally:
            with self._lock:
                # One that was cancelled leaves its place, and has taken no token.
                self._lines[line].remove(ticket)
        if is_late:
            with self._lock:
                self._waited_total += 1
                self._waited_s += self._clock.monotonic_s() - began_s

    def _until_turn_s(self, bucket: TokenBucket, line: _Line, ticket: object) -> float:
        """Take a token if it is this one's turn; else say when to ask again."""
        with self._lock:
            place, other = self._lines[line].index(ticket), self._lines[1 - line]
            ahead = place + min(len(other), place + (line == self._went_last))
            now_s = self._clock.monotonic_s()
            # Those ahead may still be asleep; what they need is left to them.
            wait_s = bucket.wait_s(now_s, ahead + 1)
            if not wait_s:
                bucket.take(now_s)
                self._went_last = line
            return wait_s
