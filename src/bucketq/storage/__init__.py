"""Where a queue is kept: the port, the adapters that ship with bucketq, and `open_storage`."""

from bucketq.storage.cloud import AzureStorage, GCSStorage, S3Storage
from bucketq.storage.file import LocalFileSystemStorage
from bucketq.storage.memory import InMemoryStorage
from bucketq.storage.port import Bucket, ObjectInfo, Objects, ObjectStoragePort, Watch, Watchable, side_prefix
from bucketq.storage.throttled import RequestStats, ThrottledStorage, ThrottleStats
from bucketq.storage.url import open_storage

__all__ = [
    "AzureStorage",
    "Bucket",
    "GCSStorage",
    "InMemoryStorage",
    "LocalFileSystemStorage",
    "ObjectInfo",
    "ObjectStoragePort",
    "Objects",
    "RequestStats",
    "S3Storage",
    "ThrottleStats",
    "ThrottledStorage",
    "Watch",
    "Watchable",
    "open_storage",
    "side_prefix",
]
