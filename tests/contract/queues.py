"""What the tests of the queue contract share: settings, storages, and every way to open a queue on one."""

import asyncio
import uuid
from contextlib import asynccontextmanager

import pytest

import bucketq.sync
from bucketq import (
    BrokerQueue,
    DirectQueue,
    InMemoryStorage,
    LocalFileSystemStorage,
    S3Storage,
    Settings,
    connect,
)
from bucketq.broker.serving import serving
from bucketq.testing.queue import QueueContract
from tests.contract.servers import BUCKET
from tests.faults.faulty import TwoMethods

SETTINGS = Settings(poll_interval_s=0.05)
# So small that most jobs stand in segments, and every payload is an object.
TINY = Settings(
    hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5, payload_inline_max=0, poll_interval_s=0.05
)
SEGMENTED = Settings(hot_jobs_max=10, hot_bytes_max=3000, segment_jobs_max=6, poll_interval_s=0.05)


def on_seaweedfs(request):
    options = request.getfixturevalue("seaweedfs").options
    return S3Storage(BUCKET, f"contract/{uuid.uuid4().hex}.json", **options)


STORAGES = {
    "memory": lambda request: InMemoryStorage(),
    "file": lambda request: LocalFileSystemStorage(request.getfixturevalue("tmp_path") / "queue.json"),
    "two methods": lambda request: TwoMethods(),
    "seaweedfs": on_seaweedfs,
}


def on(*names):
    """A fixture that runs every test of a class on each of these storages."""

    @pytest.fixture(autouse=True, params=names)
    def storage(self, request):
        self.storage = STORAGES[request.param](request)
        self.keeps_archive = request.param != "two methods"

    return storage


class Broker:
    settings = SETTINGS

    def open(self):
        return BrokerQueue(self.storage, settings=self.settings)


class Direct:
    settings = SETTINGS

    @asynccontextmanager
    async def open(self):
        yield DirectQueue(self.storage, settings=self.settings)


class Remote:
    """A queue by way of a broker of its own; `scheme` says how."""

    settings = SETTINGS
    scheme = "grpc"

    @asynccontextmanager
    async def open(self):
        async with serving(self.storage, settings=self.settings) as broker:
            address = broker.address if self.scheme == "grpc" else broker.http
            async with connect(f"{self.scheme}://{address}", settings=self.settings) as q:
                yield q


class FromThreads:
    """A sync queue as the contract wants it: each call is made in a thread."""

    def __init__(self, queue):
        self._queue = queue
        self.settings = queue.settings

    def __getattr__(self, name):
        method = getattr(self._queue, name)
        return lambda *args, **options: asyncio.to_thread(method, *args, **options)

    async def dead(self, entrypoint=None):
        for job in await asyncio.to_thread(lambda: list(self._queue.dead(entrypoint))):
            yield job

    async def jobs(self, **chosen):
        for job in await asyncio.to_thread(lambda: list(self._queue.jobs(**chosen))):
            yield job

    @asynccontextmanager
    async def transaction(self):
        block = self._queue.transaction()
        transaction = await asyncio.to_thread(block.__enter__)
        try:
            yield transaction
        except BaseException as error:
            await asyncio.to_thread(block.__exit__, type(error), error, None)
            raise
        await asyncio.to_thread(block.__exit__, None, None, None)


class Sync(QueueContract):
    # A thread cannot be cancelled; test_sync.py has what there is instead.
    test_a_cancelled_dequeue_keeps_no_job = None

    @asynccontextmanager
    async def opened(self, url):
        block = bucketq.sync.connect(url, settings=SETTINGS)
        yield FromThreads(await asyncio.to_thread(block.__enter__))
        await asyncio.to_thread(block.__exit__, None, None, None)
