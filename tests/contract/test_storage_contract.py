"""The storage contract over every cloud's adapter, each on a server as real as can be had."""

import pytest

from bucketq.storage import AzureStorage, GCSStorage, ObjectStoragePort, S3Storage
from bucketq.testing import BucketContract
from tests.contract.servers import BUCKET, Server


class TestS3OnSeaweedFS(BucketContract):
    @pytest.fixture(autouse=True)
    def _server(self, seaweedfs: Server) -> None:
        self.server = seaweedfs

    async def open(self, key: str) -> ObjectStoragePort:
        return S3Storage(BUCKET, key, **self.server.options)


class TestS3OnMiniStack(BucketContract):
    @pytest.fixture(autouse=True)
    def _server(self, ministack: Server) -> None:
        self.server = ministack

    async def open(self, key: str) -> ObjectStoragePort:
        return S3Storage(BUCKET, key, **self.server.options)


class TestAzureOnAzurite(BucketContract):
    @pytest.fixture(autouse=True)
    def _server(self, azurite: Server) -> None:
        self.server = azurite

    async def open(self, key: str) -> ObjectStoragePort:
        return AzureStorage(BUCKET, key, **self.server.options)


class TestGCSOnAFake(BucketContract):
    @pytest.fixture(autouse=True)
    def _server(self, gcs: Server) -> None:
        self.server = gcs

    async def open(self, key: str) -> ObjectStoragePort:
        return GCSStorage(BUCKET, key, **self.server.options)
