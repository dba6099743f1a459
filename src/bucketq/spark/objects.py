"""The objects beside a queue, for the tasks of Spark."""

from bucketq.clock import SystemClock
from bucketq.mint import Mint
from bucketq.queue import Queue
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.storage import Bucket

SETTINGS = Settings()


def side_objects(storage: Bucket, settings: Settings = SETTINGS) -> SideObjects:
    """The objects beside the queue on a storage."""
    return SideObjects(storage.objects, settings, SystemClock(), Mint())


def objects_of(queue: Queue, settings: Settings = SETTINGS) -> SideObjects:
    """The objects beside a queue that was opened by its URL."""
    assert isinstance(queue.storage, Bucket)
    return side_objects(queue.storage, settings)
