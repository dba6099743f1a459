"""FaultyStorage: an in-memory queue object, and objects beside it, whose requests go wrong as told."""

import asyncio
import json
from collections import deque
from contextlib import suppress
from datetime import timedelta

from bucketq import (
    BrokerQueue,
    CASConflictError,
    InMemoryStorage,
    ObjectNotFoundError,
    Settings,
    SlowDownError,
    StorageError,
    StorageFullError,
)
from bucketq.testing.virtual_time import VirtualClock


def queues_with(kind=BrokerQueue, **defaults):
    """A function that opens queues in virtual time, with these settings unless it is given others."""

    def open_queue(storage, skew=timedelta(0), **settings):
        return kind(storage, settings=Settings(**defaults | settings), clock=VirtualClock(skew))

    return open_queue


class TwoMethods:
    """A user's own adapter: nothing but the port."""

    def __init__(self):
        self._inner = InMemoryStorage()

    async def read(self):
        return await self._inner.read()

    async def write(self, content, if_match=None):
        return await self._inner.write(content, if_match)


class FaultyStorage:
    """Each write takes the next fault from `faults`; without one it succeeds.

    conflict        refused although nothing changed
    lost answer     lands, then the connection breaks
    lost, retried   lands, the client's own retry is refused: looks like a conflict
    lost request    never arrives
    late            seems to fail, lands a moment later unless the object has changed
    slow down       429
    full            refused for want of room, for certain
    no answer       nothing is ever heard of it

    With `write_every_s`, a write that comes sooner after the last that landed gets a 429.

    The next `failing_reads` reads fail, of the queue itself or of an object beside it.

    The requests for the objects beside the queue take theirs from `object_faults`, and
    `object_latency_s` longer than those for the queue itself.
    """

    def __init__(self, inner=None):
        self.inner = inner or InMemoryStorage()
        self.objects = FaultyObjects(self)
        self.faults = deque()
        self.object_faults = deque()
        self.failing_reads = 0
        self.is_down = False
        self.latency_s = 0.0
        self.object_latency_s = 0.0
        self.write_every_s = 0.0
        self.landed_s = float("-inf")
        self.refused = 0
        self.reads = 0
        self.writes = 0
        self.creates = 0
        self.object_reads = 0
        self.deletes = 0
        self.lists = 0
        self.versions = []

    @property
    def beside(self):
        """The objects beside the queue, as they are: name -> (content, time)."""
        return self.inner.objects._objects

    @property
    def names(self):
        """The segments, payloads and staged parts beside the queue."""
        return {name for name in self.beside if name.startswith(("backlog/", "payloads/", "staged/"))}

    async def document(self):
        """What stands in queue.json, as JSON."""
        return json.loads((await self.inner.read())[0])

    async def read(self):
        self.reads += 1
        await self._reach()
        self._fail_read()
        return await self.inner.read()

    async def read_if_changed(self, etag):
        self.reads += 1
        await self._reach()
        self._fail_read()
        return await self.inner.read_if_changed(etag)

    async def write(self, content, if_match=None):
        self.writes += 1
        await self._reach()
        if asyncio.get_running_loop().time() < self.landed_s + self.write_every_s:
            self.refused += 1
            raise SlowDownError("injected: 429, too soon")
        fault = self.faults.popleft() if self.faults else None
        if fault == "conflict":
            raise CASConflictError("injected")
        if fault == "lost request":
            raise StorageError("injected: connection refused")
        if fault == "slow down":
            raise SlowDownError("injected: 429")
        if fault == "full":
            raise StorageFullError("injected: no space left")
        if fault == "no answer":
            await asyncio.Event().wait()
        if fault == "late":
            asyncio.get_running_loop().call_later(0.05, self._land_late, content, if_match)
            raise StorageError("injected: timeout")
        etag = await self._land(content, if_match)
        if fault == "lost answer":
            raise StorageError("injected: connection reset")
        if fault == "lost, retried":
            raise CASConflictError("injected: 412 on the retry of a write that had landed")
        assert fault is None, fault
        return etag

    async def _reach(self):
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if self.is_down:
            raise StorageError("injected: outage")

    def _fail_read(self):
        if self.failing_reads:
            self.failing_reads -= 1
            raise StorageError("injected: the read failed")

    async def _land(self, content, if_match):
        etag = await self.inner.write(content, if_match)
        self.landed_s = asyncio.get_running_loop().time()
        self.versions.append((await self.inner.read())[0])
        return etag

    def _land_late(self, content, if_match):
        # Nothing in it awaits, so one step is all of it.
        with suppress(StopIteration, CASConflictError):
            self._land(content, if_match).send(None)


class FaultyObjects:
    """Each create, read and delete takes the storage's next `object_faults`; a listing takes none.

    A listing tells when an object was created in virtual time.

    lost answer     lands, then the connection breaks
    lost request    never arrives
    slow down       429
    gone            a read finds no such object
    """

    def __init__(self, storage):
        self.storage = storage
        self._created_at = {}

    async def read(self, name):
        self.storage.object_reads += 1
        self.storage._fail_read()
        return await self._ask("read", name)

    async def create(self, name, content):
        self.storage.creates += 1
        await self._ask("create", name, content)
        self._created_at[name] = VirtualClock().now()

    async def delete(self, name):
        self.storage.deletes += 1
        await self._ask("delete", name)

    async def list(self, prefix=""):
        self.storage.lists += 1
        await self.storage._reach()
        async for info in self.storage.inner.objects.list(prefix):
            yield info._replace(modified_at=self._created_at.get(info.name, info.modified_at))

    async def _ask(self, verb, name, *content):
        if self.storage.object_latency_s:
            await asyncio.sleep(self.storage.object_latency_s)
        await self.storage._reach()
        fault = self.storage.object_faults.popleft() if self.storage.object_faults else None
        if fault == "lost request":
            raise StorageError("injected: connection refused")
        if fault == "slow down":
            raise SlowDownError("injected: 429")
        if fault == "gone":
            assert verb == "read", f"only a read finds an object gone, not {verb} {name}"
            raise ObjectNotFoundError(f"injected: no object {name!r}")
        outcome = await getattr(self.storage.inner.objects, verb)(name, *content)
        if fault == "lost answer":
            raise StorageError("injected: connection reset")
        assert fault is None, fault
        return outcome
