"""The queue contract over both embedded queues and every way to a broker: on memory, a file and a
two-method adapter; and again with limits so small that most jobs stand in segments and every payload in
an object, also on S3."""

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
    open_storage,
)
from bucketq.broker.serving import serving
from bucketq.testing.queue import QueueContract, SegmentContract

from .servers import BUCKET

SETTINGS = Settings(poll_interval_s=0.05)
TINY = Settings(
    hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5, payload_inline_max=0, poll_interval_s=0.05
)


class TwoMethods:
    """A user's own adapter: nothing but the port."""

    def __init__(self):
        self._inner = InMemoryStorage()

    async def read(self):
        return await self._inner.read()

    async def write(self, content, if_match=None):
        return await self._inner.write(content, if_match)


def on_seaweedfs(request):
    options = request.getfixturevalue("seaweedfs").options
    return S3Storage(BUCKET, f"contract/{uuid.uuid4().hex}.json", **options)


STORAGES = {
    "memory": lambda request: InMemoryStorage(),
    "file": lambda request: LocalFileSystemStorage(request.getfixturevalue("tmp_path") / "queue.json"),
    "two methods": lambda request: TwoMethods(),
    "seaweedfs": on_seaweedfs,
}


class OnStorages(QueueContract):
    settings = SETTINGS

    @pytest.fixture(autouse=True, params=["memory", "file", "two methods"])
    def _storage(self, request):
        self.storage = STORAGES[request.param](request)
        self.keeps_archive = request.param != "two methods"


class OnStoragesWithTinyLimits(QueueContract):
    settings = TINY

    @pytest.fixture(autouse=True, params=["memory", "file", "seaweedfs"])
    def _storage(self, request):
        self.storage = STORAGES[request.param](request)


class Broker:
    def open(self):
        return BrokerQueue(self.storage, settings=self.settings)


class Direct:
    @asynccontextmanager
    async def open(self):
        yield DirectQueue(self.storage, settings=self.settings)


class TestBrokerQueue(Broker, OnStorages):
    pass


class TestDirectQueue(Direct, OnStorages):
    pass


class TestBrokerQueueWithTinyLimits(Broker, OnStoragesWithTinyLimits):
    pass


class TestDirectQueueWithTinyLimits(Direct, OnStoragesWithTinyLimits):
    pass


class Grpc:
    @asynccontextmanager
    async def open(self):
        async with (
            serving(self.storage, settings=self.settings) as broker,
            connect(f"grpc://{broker.address}", settings=self.settings) as q,
        ):
            yield q


class ByHttp:
    scheme = "http"

    @asynccontextmanager
    async def open(self):
        async with (
            serving(self.storage, settings=self.settings) as broker,
            connect(f"{self.scheme}://{broker.http}", settings=self.settings) as q,
        ):
            yield q


class ByWebSocket(ByHttp):
    scheme = "ws"


class TestGrpcQueue(Grpc, QueueContract):
    settings = SETTINGS

    @pytest.fixture(autouse=True, params=["memory", "file"])
    def _storage(self, request):
        self.storage = STORAGES[request.param](request)


class TestGrpcQueueWithTinyLimits(Grpc, OnStoragesWithTinyLimits):
    pass


# Which storage is behind a broker makes no difference to the way to it, so one of each kind will do.
class OnOneStorage:
    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path):
        self.storage = LocalFileSystemStorage(tmp_path / "queue.json")


class TestHttpQueue(OnOneStorage, ByHttp, QueueContract):
    settings = SETTINGS


class TestWsQueue(OnOneStorage, ByWebSocket, QueueContract):
    settings = SETTINGS


class TestHttpQueueWithTinyLimits(OnOneStorage, ByHttp, QueueContract):
    settings = TINY


class TestWsQueueWithTinyLimits(OnOneStorage, ByWebSocket, QueueContract):
    settings = TINY


class TestGrpcQueueByStorage(QueueContract):
    @asynccontextmanager
    async def open(self):
        url = f"file://{self.folder}/queue.json"
        async with serving(open_storage(url)), connect(url, via="broker", settings=SETTINGS) as q:
            yield q

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path


class OnBucketsInSegments(SegmentContract):
    settings = Settings(hot_jobs_max=10, hot_bytes_max=3000, segment_jobs_max=6, poll_interval_s=0.05)

    @pytest.fixture(autouse=True, params=["memory", "file", "seaweedfs"])
    def _storage(self, request):
        self.storage = STORAGES[request.param](request)


class TestSegmentsOfBrokerQueue(Broker, OnBucketsInSegments):
    pass


class TestSegmentsOfDirectQueue(Direct, OnBucketsInSegments):
    pass


class TestSegmentsOfGrpcQueue(Grpc, OnBucketsInSegments):
    pass


class TestSegmentsOfHttpQueue(OnOneStorage, ByHttp, SegmentContract):
    settings = OnBucketsInSegments.settings


class TestSegmentsOfWsQueue(OnOneStorage, ByWebSocket, SegmentContract):
    settings = OnBucketsInSegments.settings


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


class TestSyncQueue(Sync):
    def open(self):
        return self.opened("memory://")


class TestSyncGrpcQueue(Sync):
    @asynccontextmanager
    async def open(self):
        async with serving(InMemoryStorage()) as broker, self.opened(f"grpc://{broker.address}") as q:
            yield q


class TestSyncHttpQueue(Sync):
    scheme = "http"

    @asynccontextmanager
    async def open(self):
        async with (
            serving(InMemoryStorage()) as broker,
            self.opened(f"{self.scheme}://{broker.http}") as q,
        ):
            yield q


class TestSyncWsQueue(TestSyncHttpQueue):
    scheme = "ws"


class TestSoleWriter(QueueContract):
    def open(self):
        return BrokerQueue(InMemoryStorage(), settings=Settings(sole_writer=True))
