"""The objects beside a queue, for a fleet: its driver and its executors."""

from bucketq.queue import Queue
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.storage import Bucket


def objects_of(queue: Queue, settings: Settings | None = None) -> SideObjects:
    """The objects beside a queue that was opened by its URL."""
    assert isinstance(queue.storage, Bucket)
    return SideObjects(queue.storage.objects, settings)
