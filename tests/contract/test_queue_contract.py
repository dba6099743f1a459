"""The queue contract over both embedded queues, on memory, a file and a two-method adapter."""

from contextlib import asynccontextmanager

import pytest

from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, LocalFileSystemStorage, Settings
from bucketq.testing.queue import QueueContract

SETTINGS = Settings(poll_interval_s=0.05)


class TwoMethods:
    """A user's own adapter: nothing but the port."""

    def __init__(self):
        self._inner = InMemoryStorage()

    async def read(self):
        return await self._inner.read()

    async def write(self, content, if_match=None):
        return await self._inner.write(content, if_match)


STORAGES = {
    "memory": lambda folder: InMemoryStorage(),
    "file": lambda folder: LocalFileSystemStorage(folder / "queue.json"),
    "two methods": lambda folder: TwoMethods(),
}


@pytest.fixture(params=STORAGES)
def storage(request, tmp_path):
    return STORAGES[request.param](tmp_path)


class TestBrokerQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def _storage(self, storage):
        self.storage = storage

    def open(self):
        return BrokerQueue(self.storage, settings=SETTINGS)


class TestDirectQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def _storage(self, storage):
        self.storage = storage

    @asynccontextmanager
    async def open(self):
        yield DirectQueue(self.storage, settings=SETTINGS)


class TestSoleWriter(QueueContract):
    def open(self):
        return BrokerQueue(InMemoryStorage(), settings=Settings(sole_writer=True))
