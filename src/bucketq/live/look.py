"""Look: queue.json as it stood at one moment, without its backlog."""

import asyncio
from datetime import datetime
from typing import NamedTuple

from bucketq.clock import Clock
from bucketq.codec import decode
from bucketq.errors import StorageError
from bucketq.state import QueueState
from bucketq.storage.port import Bucket, describe

# Longer than a busy storage takes; whoever watches wants to know soon.
_ANSWER_WITHIN_S = 5.0


class Look(NamedTuple):
    """A state, when it was seen, and how long the storage took to tell it."""

    state: QueueState
    at: datetime
    at_s: float
    took_s: float


class Looker:
    """Reads queue.json again and again; what has not changed is not decoded again."""

    def __init__(self, storage: Bucket, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._state = QueueState()
        self._etag: str | None = None
        # An answer that was slow must not come after a newer one.
        self._turn = asyncio.Lock()

    async def look(self) -> Look:
        """The queue as it stands now. Raises StorageError, and CorruptStateError if it is no queue."""
        async with self._turn:
            return await self._look()

    async def _look(self) -> Look:
        began_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                read = await self._storage.read_if_changed(self._etag)
        except TimeoutError as error:
            raise StorageError(
                f"{describe(self._storage)} has not answered for {_ANSWER_WITHIN_S:g} s", error
            ) from error
        ended_s = self._clock.monotonic_s()
        # A broker sends it all the same, with the etag that it had.
        if read is not None and read[1] != self._etag:
            content, etag = read
            self._state = QueueState() if etag is None else decode(content, describe(self._storage))
            self._etag = etag
        return Look(self._state, self._clock.now(), ended_s, ended_s - began_s)
