"""The storage contract over the adapters that need no server, a user's own among them."""

import re
from pathlib import Path

import pytest

from bucketq.errors import CASConflictError
from bucketq.storage import InMemoryStorage, LocalFileSystemStorage, ObjectStoragePort, ThrottledStorage
from bucketq.testing import BucketContract, StorageContract, check_storage


class TestInMemory(BucketContract):
    @pytest.fixture(autouse=True)
    def _memories(self) -> None:
        self.memories: dict[str, InMemoryStorage] = {}

    async def open(self, key: str) -> ObjectStoragePort:
        return self.memories.setdefault(key, InMemoryStorage())


class TestLocalFileSystem(BucketContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def open(self, key: str) -> ObjectStoragePort:
        return LocalFileSystemStorage(self.folder / key)


class TestThrottled(BucketContract):
    @pytest.fixture(autouse=True)
    def _memories(self) -> None:
        self.memories: dict[str, ThrottledStorage] = {}

    async def open(self, key: str) -> ObjectStoragePort:
        storage = ThrottledStorage(InMemoryStorage(), reads_per_s=2000, writes_per_s=1000, burst=1)
        return self.memories.setdefault(key, storage)


class DictStorage:
    """The two methods over a dict, as somebody might write them."""

    def __init__(self, versions: dict[str, list[bytes]], key: str) -> None:
        self.versions = versions.setdefault(key, [])

    async def read(self) -> tuple[bytes, str | None]:
        return (self.versions[-1], str(len(self.versions))) if self.versions else (b"", None)

    async def write(self, content: bytes, if_match: str | None = None) -> str:
        _, etag = await self.read()
        if etag != if_match:
            raise CASConflictError("changed")
        self.versions.append(content)
        return str(len(self.versions))


class TestTwoMethods(StorageContract):
    @pytest.fixture(autouse=True)
    def _versions(self) -> None:
        self.versions: dict[str, list[bytes]] = {}

    async def open(self, key: str) -> ObjectStoragePort:
        return DictStorage(self.versions, key)


async def test_check_storage_passes_a_right_adapter() -> None:
    versions: dict[str, list[bytes]] = {}
    memories: dict[str, InMemoryStorage] = {}

    async def open_two_methods(key: str) -> ObjectStoragePort:
        return DictStorage(versions, key)

    async def open_bucket(key: str) -> ObjectStoragePort:
        return memories.setdefault(key, InMemoryStorage())

    await check_storage(open_two_methods)
    await check_storage(open_bucket)


class OverwritesOnCreate(DictStorage):
    async def write(self, content: bytes, if_match: str | None = None) -> str:
        return await super().write(content, if_match or (await self.read())[1])


class ForgetsTheCondition(DictStorage):
    async def write(self, content: bytes, if_match: str | None = None) -> str:
        return await super().write(content, (await self.read())[1] if if_match else None)


class SaysEmptyIsMissing(DictStorage):
    async def read(self) -> tuple[bytes, str | None]:
        content, etag = await super().read()
        return content, etag if content else None


class RepeatsEtags(DictStorage):
    async def read(self) -> tuple[bytes, str | None]:
        content, etag = await super().read()
        return content, content[-1:].hex() if etag else None

    async def write(self, content: bytes, if_match: str | None = None) -> str:
        await super().write(content, if_match)
        return content[-1:].hex()


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (OverwritesOnCreate, "test_create_refuses_an_existing_object"),
        (ForgetsTheCondition, "test_stale_write_is_refused"),
        (SaysEmptyIsMissing, "test_empty_object_exists"),
        (RepeatsEtags, "test_each_version_has_its_own_etag"),
    ],
)
async def test_check_storage_names_what_is_wrong(broken: type[DictStorage], check: str) -> None:
    versions: dict[str, list[bytes]] = {}

    async def open_broken(key: str) -> ObjectStoragePort:
        return broken(versions, key)

    with pytest.raises(AssertionError, match=rf"^{re.escape(check)}: "):
        await check_storage(open_broken)
