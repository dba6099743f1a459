"""What a cloud storage sends: as few requests and as few bytes as can be."""

import asyncio

import pytest

from bucketq.storage.cloud import CloudStorage
from tests.contract.conftest import Cloud
from tests.contract.fault_proxy import FaultProxy
from tests.contract.servers import BUCKET


def _methods(proxy: FaultProxy) -> list[str]:
    return [request.method for request in proxy.requests]


async def test_write_is_one_request_however_large(storage: CloudStorage, proxy: FaultProxy) -> None:
    etag = await storage.write(b"small")
    etag = await storage.write(bytes(12_000_000), etag)
    await storage.write([bytes(12_000)] * 1000, etag)
    await storage.objects.create("large", bytes(12_000_000))
    assert _methods(proxy) == ["PUT", "PUT", "PUT", "PUT"]


async def test_unchanged_object_is_not_sent(storage: CloudStorage, proxy: FaultProxy) -> None:
    etag = await storage.write(bytes(100_000))
    proxy.requests.clear()
    proxy.answered_bytes = 0
    assert await storage.read_if_changed(etag) is None
    assert len(proxy.requests) == 1
    assert proxy.answered_bytes == 0


@pytest.mark.parametrize("cloud", ["seaweedfs"], indirect=True)
async def test_s3_etag_is_sent_without_quotes(storage: CloudStorage, proxy: FaultProxy) -> None:
    etag = await storage.write(b"1")
    await storage.write(b"2", etag)
    assert proxy.requests[0].headers["if-none-match"] == "*"
    assert proxy.requests[1].headers["if-match"] == etag
    assert '"' not in etag


@pytest.mark.parametrize("cloud", ["seaweedfs"], indirect=True)
async def test_s3_delete_is_a_plain_one(storage: CloudStorage, proxy: FaultProxy) -> None:
    await storage.objects.delete("name")
    assert _methods(proxy) == ["DELETE"]


# Not on Azure, where a page takes 5,000 names and Azurite half a minute to make them.
@pytest.mark.parametrize("cloud", ["seaweedfs", "gcs"], indirect=True)
async def test_long_listing_comes_in_pages(cloud: Cloud, storage: CloudStorage, proxy: FaultProxy) -> None:
    direct = cloud.storage_class(BUCKET, storage.url.rpartition("/")[2], **cloud.server.options)
    names = [f"segment/{number:05}" for number in range(1010)]
    for start in range(0, len(names), 100):
        await asyncio.gather(*(direct.objects.create(name, b"") for name in names[start : start + 100]))
    assert [info.name async for info in storage.objects.list()] == names
    assert len(proxy.requests) > 1, "all came in one page, so this tested nothing"
    assert [info.name async for info in storage.objects.list("segment/0020")] == names[200:210]
