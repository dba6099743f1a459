"""The queue contract over the embedded queues, on memory, a file and a two-method adapter; and again with
limits so small that most jobs stand in segments and every payload in an object."""

from bucketq import BrokerQueue, InMemoryStorage, Settings
from bucketq.testing.queue import QueueContract, SegmentContract
from tests.contract.queues import SEGMENTED, TINY, Broker, Direct, Sync, on


class TestBrokerQueue(Broker, QueueContract):
    storages = on("memory", "file")


class TestDirectQueue(Direct, QueueContract):
    storages = on("file", "two methods")


class TestBrokerQueueWithTinyLimits(Broker, QueueContract):
    settings = TINY
    storages = on("file")


class TestDirectQueueWithTinyLimits(Direct, QueueContract):
    settings = TINY
    storages = on("memory")


class TestSegmentsOfBrokerQueue(Broker, SegmentContract):
    settings = SEGMENTED
    storages = on("file")


class TestSegmentsOfDirectQueue(Direct, SegmentContract):
    settings = SEGMENTED
    storages = on("memory")


class TestSyncQueue(Sync):
    def open(self):
        return self.opened("memory://")


class TestSoleWriter(QueueContract):
    def open(self):
        return BrokerQueue(InMemoryStorage(), settings=Settings(sole_writer=True))
