"""The objects beside a queue, for the tasks of Spark."""

from bucketq.clock import SystemClock
from bucketq.mint import Mint
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.storage import Bucket

SETTINGS = Settings()


def side_objects(storage: Bucket) -> SideObjects:
    """The objects beside the queue on a storage."""
    return SideObjects(storage.objects, SETTINGS, SystemClock(), Mint())
