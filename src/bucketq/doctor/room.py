"""Room: where the doctor tries things out, beside the queue and never on it.

    s3://bucket/queues/jobs.json          the queue
    s3://bucket/queues/jobs/probe/…       what is tried, removed at the end

A file's is in a temporary folder beside the file: the same disk, and nobody else is there.
"""

import asyncio
import atexit
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from bucketq.errors import AccessDeniedError, SlowDownError, StorageError
from bucketq.storage import Bucket, LocalFileSystemStorage, open_storage, side_prefix
from bucketq.storage.proof import PROBES

T = TypeVar("T")

# GCS takes about one write a second to an object.
_SLOW_DOWN_S = 1.0
_SLOW_DOWNS_MAX = 3
# What is as old as this was left behind by a process that was killed.
_LEFT_BEHIND = timedelta(hours=1)


class Room:
    """The probes of one examination. Each has a URL of its own, which other processes can open."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.options = options
        # What lies beside the queue is asked for by way of it.
        self.storage = open_storage(url, **options)
        self._parts = urlsplit(url)
        self._folder = f"{PROBES}{secrets.token_hex(8)}-"
        # The probes that there may be; at the end those that could not be removed.
        self.names: list[str] = []

    def name(self, what: str) -> str:
        """The name of a probe beside the queue."""
        name = self._folder + what
        if name not in self.names:
            self.names.append(name)
        return name

    def url(self, what: str) -> str:
        """The URL of a probe."""
        key = side_prefix(unquote(self._parts.path)) + self.name(what)
        return self._parts._replace(path=quote(key)).geturl()

    def open(self, what: str) -> Bucket:
        """A probe, to be written as a queue is."""
        return open_storage(self.url(what), **self.options)

    async def clear(self) -> None:
        """Remove every probe that can be removed."""
        for name in tuple(self.names):
            with suppress(StorageError, OSError):
                await self.storage.objects.delete(name)
                self.names.remove(name)

    async def sweep(self) -> int:
        """Remove what processes have left that were killed while they tried something; say how many."""
        probes = [info async for info in self.storage.objects.list(PROBES)]
        # By the storage's clock, as this room's own probes tell it: one that another process needs right
        # now must not be taken for an old one.
        newest = max((info.modified_at for info in probes if info.name in self.names), default=None)
        old = [info.name for info in probes if newest and info.modified_at < newest - _LEFT_BEHIND]
        for name in old:
            await self.storage.objects.delete(name)
        return len(old)


async def unhurried(request: Callable[[], Awaitable[T]]) -> T:
    """The answer to a request, which is sent again when the storage asks for fewer of them."""
    for _ in range(_SLOW_DOWNS_MAX):
        with suppress(SlowDownError):
            return await request()
        await asyncio.sleep(_SLOW_DOWN_S)
    return await request()


@asynccontextmanager
async def probe_room(url: str, options: Mapping[str, Any]) -> AsyncIterator[Room]:
    """A room for the queue at a URL; at the end it is empty, but for its `names`. Raises StorageError."""
    storage = open_storage(url, **options)
    if isinstance(storage, LocalFileSystemStorage):
        # The queue's own folders are made with its first write.
        folder = next(folder for folder in storage.path.parents if folder.is_dir())
        with _temporary(folder) as name:
            # A thread that is at a write when the doctor is stopped may make the folder again.
            remove = partial(rmtree, name, ignore_errors=True)
            atexit.register(remove)
            room = Room(f"file://{quote(name)}/queue.json", {})
            yield room
        atexit.unregister(remove)
        room.names.clear()
    else:
        room = Room(url, options)
        try:
            yield room
        finally:
            await room.clear()


def _temporary(folder: Path) -> "TemporaryDirectory[str]":
    try:
        return TemporaryDirectory(prefix=".bucketq-doctor-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise AccessDeniedError(f"may not write in {folder}: {error.strerror}", error) from error
