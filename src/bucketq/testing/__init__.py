"""What bucketq offers to other people's tests."""

from bucketq.testing.storage import BucketContract, StorageContract, check_storage

__all__ = ["BucketContract", "StorageContract", "check_storage"]
