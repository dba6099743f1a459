"""Cloud: a bucket in virtual time, as far away as S3, that counts its requests.

Nobody is told of changes, as on every cloud: who waits has to look. An hour takes as long as its
requests take to compute, and the same run makes the same requests on any machine.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from bucketq.account import Account
from bucketq.errors import CASConflictError, ObjectExistsError, ObjectNotFoundError
from bucketq.prices import S3
from bucketq.storage.counted import CountedBucket
from bucketq.storage.port import ObjectInfo
from bucketq.testing.virtual_time import VirtualClock

# What a small request takes within a region of S3, about.
ROUND_TRIP_S = 0.03


class Cloud:
    """The queue's object, and those beside it."""

    # By which a queue knows the prices.
    url = "s3://bucket/jobs.json"

    def __init__(self) -> None:
        self.objects = CloudObjects()
        self._content: bytes | Sequence[bytes] = b""
        self._generation = 0

    async def read(self) -> tuple[bytes, str | None]:
        await asyncio.sleep(ROUND_TRIP_S)
        return self._whole(), self._etag()

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        await asyncio.sleep(ROUND_TRIP_S)
        return None if etag == self._etag() else (self._whole(), self._etag())

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        # It lands half-way, before its answer is on the way back.
        await asyncio.sleep(ROUND_TRIP_S / 2)
        is_refused = if_match != self._etag()
        if not is_refused:
            self._content = content if isinstance(content, bytes) else tuple(content)
            self._generation += 1
        etag = str(self._generation)
        await asyncio.sleep(ROUND_TRIP_S / 2)
        if is_refused:
            raise CASConflictError(f"412: not at {if_match}")
        return etag

    def _whole(self) -> bytes:
        if not isinstance(self._content, bytes):
            self._content = b"".join(self._content)
        return self._content

    def _etag(self) -> str | None:
        return str(self._generation) if self._generation else None


class CloudObjects:
    """The objects beside the queue."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._clock = VirtualClock()

    async def read(self, name: str) -> bytes:
        await asyncio.sleep(ROUND_TRIP_S)
        if name not in self._objects:
            raise ObjectNotFoundError(name)
        return self._objects[name][0]

    async def create(self, name: str, content: bytes) -> None:
        await asyncio.sleep(ROUND_TRIP_S)
        if name in self._objects:
            raise ObjectExistsError(name)
        self._objects[name] = bytes(content), self._clock.now()

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        await asyncio.sleep(ROUND_TRIP_S)
        for name, (content, created_at) in sorted(self._objects.items()):
            if name.startswith(prefix):
                yield ObjectInfo(name, len(content), created_at)

    async def delete(self, name: str) -> None:
        await asyncio.sleep(ROUND_TRIP_S)
        self._objects.pop(name, None)


class CountedCloud(CountedBucket):
    """A cloud, with one account for all the processes that use it."""

    def __init__(self) -> None:
        super().__init__(Cloud(), Account(S3, VirtualClock()))
