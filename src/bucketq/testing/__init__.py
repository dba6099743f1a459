"""What bucketq offers to other people's tests."""

from bucketq.testing.app import Jobs, Ran, testing
from bucketq.testing.queue import QueueContract
from bucketq.testing.simulated_bucket import SimulatedBucket, Weather
from bucketq.testing.storage import BucketContract, StorageContract, check_storage
from bucketq.testing.virtual_time import Process, VirtualClock, VirtualLoop, run, virtual_time

__all__ = [
    "BucketContract",
    "Jobs",
    "Process",
    "QueueContract",
    "Ran",
    "SimulatedBucket",
    "StorageContract",
    "VirtualClock",
    "VirtualLoop",
    "Weather",
    "check_storage",
    "run",
    "testing",
    "virtual_time",
]
