"""The queue contract over every way to a broker, and over the embedded queues on S3.

The way to a broker does not know its storage, nor the sync queue the way: so each meets one of the others.
The messages of HTTP and WebSocket are the same: large payloads and segments go by HTTP here.
"""

from contextlib import asynccontextmanager

import pytest

from bucketq import InMemoryStorage, connect, open_storage
from bucketq.broker.serving import serving
from bucketq.testing.queue import QueueContract, SegmentContract
from tests.contract.queues import SEGMENTED, SETTINGS, TINY, Broker, Direct, Remote, Sync, on


class TestBrokerQueueWithTinyLimits(Broker, QueueContract):
    settings = TINY
    storages = on("seaweedfs")


class TestDirectQueueWithTinyLimits(Direct, QueueContract):
    settings = TINY
    storages = on("seaweedfs")


class TestGrpcQueue(Remote, QueueContract):
    storages = on("file")


class TestGrpcQueueWithTinyLimits(Remote, QueueContract):
    settings = TINY
    storages = on("seaweedfs")


class TestHttpQueue(Remote, QueueContract):
    scheme = "http"
    storages = on("file")


class TestHttpQueueWithTinyLimits(TestHttpQueue):
    settings = TINY


class TestWsQueue(Remote, QueueContract):
    scheme = "ws"
    storages = on("file")


class TestGrpcQueueByStorage(QueueContract):
    """Clients that name the storage, and find the broker's address in it."""

    @asynccontextmanager
    async def open(self):
        url = f"file://{self.folder}/queue.json"
        async with serving(open_storage(url)), connect(url, via="broker", settings=SETTINGS) as q:
            yield q

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path


class TestSegmentsOfBrokerQueue(Broker, SegmentContract):
    settings = SEGMENTED
    storages = on("seaweedfs")


class TestSegmentsOfDirectQueue(Direct, SegmentContract):
    settings = SEGMENTED
    storages = on("seaweedfs")


class TestSegmentsOfGrpcQueue(Remote, SegmentContract):
    settings = SEGMENTED
    storages = on("seaweedfs")


class TestSegmentsOfHttpQueue(Remote, SegmentContract):
    scheme = "http"
    settings = SEGMENTED
    storages = on("file")


class TestSyncGrpcQueue(Sync):
    @asynccontextmanager
    async def open(self):
        async with serving(InMemoryStorage()) as broker, self.opened(f"grpc://{broker.address}") as q:
            yield q
