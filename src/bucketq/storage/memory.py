"""InMemoryStorage: a queue in a variable, for tests and for trying things out."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from bucketq.errors import CASConflictError, ObjectExistsError, ObjectNotFoundError
from bucketq.storage.port import BEFORE_READING, ObjectInfo, check_object_name


class InMemoryStorage:
    """One object in memory, shared by every queue that is given this instance.

    Nothing here awaits, so each call is atomic within an event loop; a lock keeps it so among threads.

    >>> storage = InMemoryStorage()
    >>> storage = InMemoryStorage(initial_content=b'{"version":0,"jobs":[]}')
    """

    url = "memory://"

    def __init__(self, initial_content: bytes = b"") -> None:
        self._content: bytes | Sequence[bytes] = bytes(initial_content)
        self._generation = 1 if initial_content else 0
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self.objects = InMemoryObjects()

    async def read(self) -> tuple[bytes, str | None]:
        with self._lock:
            if not isinstance(self._content, bytes):
                self._content = b"".join(self._content)
            return self._content, self._etag()

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        return None if etag == self._etag() else await self.read()

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        with self._lock:
            if if_match != self._etag():
                raise CASConflictError(f"in-memory object is at etag {self._etag()}, not {if_match}")
            # Copied, since a caller may go on using its own list.
            self._content = content if isinstance(content, bytes) else tuple(content)
            self._generation += 1
            waiting, self._waiting = self._waiting, set()
            etag = str(self._generation)
        for waiter in waiting:
            # The loop of another thread may be closed by now.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)
        return etag

    def watch(self) -> "MemoryWatch":
        return MemoryWatch(self)

    def _etag(self) -> str | None:
        return str(self._generation) if self._generation else None


class MemoryWatch:
    """Tells of writes to an in-memory object."""

    def __init__(self, storage: InMemoryStorage) -> None:
        self._storage = storage

    def has_changed(self, etag: str | None) -> bool:
        return etag != self._storage._etag()

    async def changed(self, etag: str | None) -> None:
        while (waiter := self._waiter(etag)) is not None:
            try:
                await waiter
            finally:
                self._storage._waiting.discard(waiter)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _waiter(self, etag: str | None) -> "asyncio.Future[None] | None":
        """What brings the next write, unless there was one already."""
        with self._storage._lock:
            if self.has_changed(etag):
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._storage._waiting.add(waiter)
            return waiter


class InMemoryObjects:
    """The objects beside an in-memory queue."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, datetime]] = {}

    async def read(self, name: str) -> bytes:
        check_object_name(name)
        if name not in self._objects:
            raise ObjectNotFoundError(f"no object {name!r} in memory")
        content = self._objects[name][0]
        if (before_reading := BEFORE_READING.get()) is not None:
            await before_reading(name, len(content))
        return content

    async def create(self, name: str, content: bytes) -> None:
        check_object_name(name)
        if name in self._objects:
            raise ObjectExistsError(f"object {name!r} is already in memory")
        self._objects[name] = (bytes(content), datetime.now(UTC))

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        for name, (content, modified_at) in sorted(self._objects.items()):
            if name.startswith(prefix):
                yield ObjectInfo(name, len(content), modified_at)

    async def delete(self, name: str) -> None:
        check_object_name(name)
        self._objects.pop(name, None)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
