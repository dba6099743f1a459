"""CloudObjects: the objects beside a queue in a bucket, through obstore.

A request may take 10 seconds, and longer by what the bytes of a large object take on a slow line.
"""

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from typing import TYPE_CHECKING

import obstore

from bucketq.errors import ObjectExistsError, ObjectNotFoundError
from bucketq.storage.cloud_errors import FAILURES, Failure
from bucketq.storage.port import BEFORE_READING, ObjectInfo, check_object_name
from bucketq.storage.runtime import enter_runtime

if TYPE_CHECKING:
    from obstore.store import ObjectStore

TIMEOUT_S = 10
# 2 Mbit/s: a few uploads at once on a line of 10.
_SLOWEST_BYTES_PER_S = 250_000
_READ_CHUNK_BYTES = 1_000_000


class CloudObjects:
    """The objects beside a queue in a bucket: those below a folder of the queue's name."""

    def __init__(
        self,
        store: "ObjectStore",
        bulk_store: "ObjectStore",
        bucket_url: str,
        folder: str,
        *,
        is_limited_by_size: bool,
    ) -> None:
        self._store = store
        self._bulk_store = bulk_store
        self._bucket_url = bucket_url
        self._folder = folder
        self._is_limited_by_size = is_limited_by_size

    async def read(self, name: str) -> bytes:
        enter_runtime()
        key = self.key(name)
        try:
            async with self._time_for(0):
                answer = await obstore.get_async(self._bulk_store, key)
            if (before_reading := BEFORE_READING.get()) is not None:
                await before_reading(name, answer.meta["size"])
            # In chunks, so that the content is never in memory twice.
            content = BytesIO()
            async with self._time_for(answer.meta["size"]):
                async for chunk in answer.stream(_READ_CHUNK_BYTES):
                    content.write(chunk)
            return content.getvalue()
        except FAILURES as error:
            failure = Failure.of(error)
            if failure.is_missing_object:
                missing = ObjectNotFoundError(f"no object at {self._bucket_url}{key}")
                raise failure.caused(missing) from error
            raise failure.as_storage_error("read", self._bucket_url + key) from error

    async def create(self, name: str, content: bytes) -> None:
        enter_runtime()
        key = self.key(name)
        try:
            async with self._time_for(len(content)):
                await obstore.put_async(self._bulk_store, key, content, mode="create")
        except FAILURES as error:
            failure = Failure.of(error)
            if failure.is_existing_object:
                message = f"there is already an object at {self._bucket_url}{key}"
                raise failure.caused(ObjectExistsError(message)) from error
            raise failure.as_storage_error("create", self._bucket_url + key) from error

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        enter_runtime()
        # obstore lists whole folders; starting just before the prefix skips what sorts earlier.
        start = self._folder + prefix
        folder = start[: start.rindex("/")]
        try:
            async for page in obstore.list(self._store, folder, offset=start[:-1]):
                for meta in page:
                    if meta["path"].startswith(start):
                        name = meta["path"].removeprefix(self._folder)
                        yield ObjectInfo(name, meta["size"], meta["last_modified"])
        except FAILURES as error:
            raise Failure.of(error).as_storage_error("list", self._bucket_url + start) from error

    async def delete(self, name: str) -> None:
        enter_runtime()
        key = self.key(name)
        try:
            await obstore.delete_async(self._store, key)
        except FAILURES as error:
            failure = Failure.of(error)
            if not failure.is_missing_object:
                raise failure.as_storage_error("delete", self._bucket_url + key) from error

    def key(self, name: str) -> str:
        """Where in the bucket an object is. Raises StorageError for a name that is none."""
        check_object_name(name)
        return self._folder + name

    def _time_for(self, size_bytes: int) -> asyncio.Timeout:
        limit_s = TIMEOUT_S + size_bytes / _SLOWEST_BYTES_PER_S
        return asyncio.timeout(limit_s if self._is_limited_by_size else None)
