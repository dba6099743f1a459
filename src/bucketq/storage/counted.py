"""CountedStorage: another storage, whose requests are counted on an account.

Every queue in this process and every broker puts one around what it is given. Requests are counted as they
are sent, whatever is answered: providers ask for money for refused ones too.
"""

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from bucketq.account import DELETE, LIST, OBJECT_READ, OBJECT_WRITE, READ, WRITE, Account
from bucketq.budget import Budget
from bucketq.clock import Clock
from bucketq.prices import MONTH_S, prices_of
from bucketq.settings import Settings
from bucketq.storage.port import (
    Bucket,
    ObjectInfo,
    Objects,
    ObjectStoragePort,
    Provable,
    Watchable,
    describe,
    endpoint_of,
)

# So many a request lists.
_PAGE = 1000


class CountedStorage:
    """A storage of two methods, counted."""

    def __init__(self, storage: ObjectStoragePort, account: Account) -> None:
        self.url = describe(storage)
        self.account = account
        self._storage = storage
        if isinstance(storage, Watchable):
            # A watch sends no requests.
            self.watch = storage.watch
        if isinstance(storage, Provable):
            # Five requests, once in a process.
            self.prove = storage.prove

    def __repr__(self) -> str:
        return repr(self._storage)

    # None of these is a coroutine itself: they add no step to the storage's own.
    def read(self) -> Coroutine[Any, Any, tuple[bytes, str | None]]:
        self.account.charge(READ)
        return self._storage.read()

    def write(self, content: bytes, if_match: str | None = None) -> Coroutine[Any, Any, str]:
        self.account.charge(WRITE)
        return self._storage.write(content, if_match)


class CountedBucket(CountedStorage):
    """A storage with objects beside the queue, counted."""

    def __init__(self, storage: Bucket, account: Account) -> None:
        super().__init__(storage, account)
        self._bucket = storage
        self.objects = CountedObjects(storage.objects, account)

    def write(
        self, content: bytes | Sequence[bytes], if_match: str | None = None
    ) -> Coroutine[Any, Any, str]:
        self.account.charge(WRITE)
        return self._bucket.write(content, if_match)

    def read_if_changed(self, etag: str | None) -> Coroutine[Any, Any, tuple[bytes, str | None] | None]:
        self.account.charge(READ)
        return self._bucket.read_if_changed(etag)


class CountedObjects:
    """The objects beside a counted queue."""

    def __init__(self, objects: Objects, account: Account) -> None:
        self._objects = objects
        self._account = account

    def read(self, name: str) -> Coroutine[Any, Any, bytes]:
        self._account.charge(OBJECT_READ)
        return self._objects.read(name)

    def create(self, name: str, content: bytes) -> Coroutine[Any, Any, None]:
        self._account.charge(OBJECT_WRITE)
        return self._objects.create(name, content)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        self._account.charge(LIST)
        listed = 0
        async for info in self._objects.list(prefix):
            listed += 1
            if listed % _PAGE == 0:
                self._account.charge(LIST)
            yield info

    def delete(self, name: str) -> Coroutine[Any, Any, None]:
        self._account.charge(DELETE)
        return self._objects.delete(name)


def open_account(storage: ObjectStoragePort, settings: Settings, clock: Clock, widest_s: float) -> Account:
    """An account for the requests to a storage; a budget may hold commits `widest_s` apart, no further."""
    prices = prices_of(describe(storage), endpoint_of(storage), settings)
    per_s = settings.budget_per_month / MONTH_S
    return Account(prices, clock, Budget(per_s, widest_s) if per_s else None)


def counted(storage: ObjectStoragePort, account: Account) -> CountedStorage:
    """A storage whose requests go on an account."""
    return (
        CountedBucket(storage, account) if isinstance(storage, Bucket) else CountedStorage(storage, account)
    )
