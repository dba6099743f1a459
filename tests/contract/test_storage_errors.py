"""What a cloud storage raises when a request fails, on real servers and through a faulty proxy.

obstore's errors have no fields, so this also pins down what its texts look like: after an
update of obstore that changes them, these tests are the ones to fail.
"""

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bucketq.errors import (
    AccessDeniedError,
    BucketQError,
    CASConflictError,
    ObjectExistsError,
    ObjectNotFoundError,
    SlowDownError,
    StorageError,
    UnusableStorageError,
)
from bucketq.storage import AzureStorage, S3Storage
from bucketq.storage.cloud import CloudStorage
from tests.contract.fault_proxy import Answer, FaultProxy, Loss
from tests.contract.servers import AZURITE_ACCOUNT, BUCKET, Server


@pytest.fixture
def hasty(cloud: Any, proxy: FaultProxy, request: pytest.FixtureRequest) -> CloudStorage:
    """The same, but it waits no longer than a second for an answer."""
    storage_class, server = cloud
    options = {**server.options, "endpoint_url": proxy.endpoint_url, "client_options": {"timeout": "1s"}}
    return storage_class(BUCKET, f"{request.node.name}.json", **options)


async def _list(storage: CloudStorage) -> list[str]:
    return [info.name async for info in storage.objects.list()]


REQUESTS: dict[str, Callable[[CloudStorage], Awaitable[object]]] = {
    "read": lambda storage: storage.read(),
    "read_if_changed": lambda storage: storage.read_if_changed("1"),
    "write": lambda storage: storage.write(b"new", "1"),
    "create": lambda storage: storage.write(b"new"),
    "object read": lambda storage: storage.objects.read("name"),
    "object create": lambda storage: storage.objects.create("name", b"new"),
    "object list": _list,
    "object delete": lambda storage: storage.objects.delete("name"),
}


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (Answer(503, "SlowDown"), SlowDownError),
        (Answer(503, "ServerBusy"), SlowDownError),
        (Answer(429, "TooManyRequests"), SlowDownError),
        (Answer(403, "AccessDenied"), AccessDeniedError),
        (Answer(401, "Unauthorized"), AccessDeniedError),
        (Answer(400, "BadRequest"), StorageError),
        (Answer(500, "InternalError"), StorageError),
    ],
    ids=lambda value: value.code if isinstance(value, Answer) else "",
)
async def test_every_request_tells_errors_apart(
    storage: CloudStorage, proxy: FaultProxy, answer: Answer, error_type: type[StorageError]
) -> None:
    proxy.fault = answer
    for name, request in REQUESTS.items():
        with pytest.raises(BucketQError) as caught:
            await request(storage)
        assert type(caught.value) is error_type, f"{name}: {caught.value!r}"
        assert caught.value.cause is caught.value.__cause__ is not None, name
        assert storage.url.removesuffix(".json") in str(caught.value), f"{name} does not say which object"
        assert str(answer.status) in str(caught.value), name
    assert len(proxy.requests) == len(REQUESTS), "each was sent once, and not retried"


@pytest.mark.parametrize("cloud", ["seaweedfs"], indirect=True)
async def test_expired_s3_token_is_denied(storage: CloudStorage, proxy: FaultProxy) -> None:
    proxy.fault = Answer(400, "ExpiredToken")
    for request in REQUESTS.values():
        with pytest.raises(AccessDeniedError, match="400 ExpiredToken; check the credentials"):
            await request(storage)


async def test_409_on_a_write_is_a_conflict(storage: CloudStorage, proxy: FaultProxy) -> None:
    proxy.fault = Answer(409, "ConditionalRequestConflict")
    with pytest.raises(CASConflictError):
        await storage.write(b"new")
    with pytest.raises(CASConflictError):
        await storage.write(b"new", "1")


async def test_404_on_a_write_is_a_conflict(storage: CloudStorage, proxy: FaultProxy) -> None:
    proxy.fault = Answer(404, "NoSuchKey")
    with pytest.raises(CASConflictError):
        await storage.write(b"new", "1")
    with pytest.raises(UnusableStorageError, match="there is no bucket 'test'"):
        await storage.write(b"new")


async def test_409_on_a_create_does_not_say_that_the_object_exists(
    storage: CloudStorage, proxy: FaultProxy
) -> None:
    proxy.fault = Answer(409, "ConditionalRequestConflict")
    with pytest.raises(StorageError) as caught:
        await storage.objects.create("name", b"new")
    assert not isinstance(caught.value, ObjectExistsError)
    proxy.fault = None
    with pytest.raises(ObjectNotFoundError):
        await storage.objects.read("name")


@pytest.mark.parametrize("loss", [Loss.RESET, Loss.CLOSED, Loss.SILENCE])
async def test_write_that_landed_and_lost_its_answer_is_no_conflict(
    storage: CloudStorage, hasty: CloudStorage, proxy: FaultProxy, loss: Loss
) -> None:
    first = await storage.write(b"first")
    proxy.fault = loss
    with pytest.raises(StorageError, match="may have landed"):
        await hasty.write(b"second", first)
    assert await asyncio.to_thread(proxy.landed.wait, 30)
    proxy.fault = None
    content, second = await storage.read()
    assert content == b"second"
    assert second != first
    assert [request.method for request in proxy.requests] == ["PUT", "PUT", "GET"], "none was sent again"


@pytest.mark.parametrize("loss", [Loss.RESET, Loss.CLOSED, Loss.SILENCE])
async def test_create_that_landed_and_lost_its_answer_is_no_conflict(
    storage: CloudStorage, hasty: CloudStorage, proxy: FaultProxy, loss: Loss
) -> None:
    proxy.fault = loss
    with pytest.raises(StorageError, match="may have landed"):
        await hasty.write(b"first")
    assert await asyncio.to_thread(proxy.landed.wait, 30)
    proxy.fault = None
    assert (await storage.read())[0] == b"first"


@pytest.mark.parametrize("loss", [Loss.RESET, Loss.CLOSED, Loss.SILENCE])
async def test_object_that_landed_and_lost_its_answer_is_not_told_as_existing(
    storage: CloudStorage, hasty: CloudStorage, proxy: FaultProxy, loss: Loss
) -> None:
    proxy.fault = loss
    with pytest.raises(StorageError, match="may have landed") as caught:
        await hasty.objects.create("name", b"first")
    assert not isinstance(caught.value, ObjectExistsError)
    assert await asyncio.to_thread(proxy.landed.wait, 30)
    proxy.fault = None
    assert await storage.objects.read("name") == b"first"


async def test_time_for_an_object_grows_with_its_size(
    storage: CloudStorage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.objects.create("small", bytes(100))
    monkeypatch.setattr("bucketq.storage.cloud_objects.TIMEOUT_S", 0.5)
    monkeypatch.setattr("bucketq.storage.cloud_objects._SLOWEST_BYTES_PER_S", 10_000)
    proxy.pause_s = 1
    await storage.objects.create("large", bytes(100_000))
    assert await storage.objects.read("large") == bytes(100_000)
    with pytest.raises(StorageError, match="no answer within the timeout; the create may have landed"):
        await storage.objects.create("another", bytes(100))
    with pytest.raises(StorageError, match=r"cannot read .*/small: no answer within the timeout$"):
        await storage.objects.read("small")


async def test_given_timeout_replaces_the_one_by_size(
    hasty: CloudStorage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hasty.objects.create("name", bytes(100))
    monkeypatch.setattr("bucketq.storage.cloud_objects.TIMEOUT_S", 0.1)
    proxy.pause_s = 0.3
    assert await hasty.objects.read("name") == bytes(100)
    monkeypatch.setattr("bucketq.storage.cloud_objects.TIMEOUT_S", 60)
    proxy.pause_s = 10
    with pytest.raises(StorageError, match="no answer within the timeout"):
        await hasty.objects.read("name")


async def test_half_a_content_is_not_taken_for_the_whole(storage: CloudStorage, proxy: FaultProxy) -> None:
    await storage.write(bytes(100_000))
    await storage.objects.create("name", bytes(100_000))
    proxy.fault = Loss.HALF
    for request in (storage.read(), storage.objects.read("name")):
        with pytest.raises(StorageError, match="cannot read"):
            await request


async def test_missing_bucket_is_told(cloud: Any) -> None:
    storage_class, server = cloud
    storage = storage_class("nowhere", "queue.json", **server.options)
    for name in ("read", "create", "object read", "object create", "object list"):
        with pytest.raises(UnusableStorageError, match="there is no bucket 'nowhere'; create it"):
            await REQUESTS[name](storage)


async def test_unreachable_server_is_told_at_once(cloud: Any) -> None:
    storage_class, server = cloud
    with socket.create_server(("127.0.0.1", 0)) as closing:
        address = f"127.0.0.1:{closing.getsockname()[1]}"
    endpoint_url = re.sub(r"127\.0\.0\.1:\d+", address, server.endpoint_url)
    storage = storage_class(BUCKET, "queue.json", **{**server.options, "endpoint_url": endpoint_url})
    started_s = time.monotonic()
    for request in REQUESTS.values():
        with pytest.raises(StorageError, match="no connection to the server"):
            await request(storage)
    assert time.monotonic() - started_s < 5, "nothing was retried or waited for"


async def test_wrong_s3_secret_is_denied(seaweedfs: Server) -> None:
    options = {**seaweedfs.options, "secret_access_key": "wrong-secret"}
    storage = S3Storage(BUCKET, "queue.json", **options)
    for request in REQUESTS.values():
        with pytest.raises(
            AccessDeniedError, match="403 SignatureDoesNotMatch; check the credentials"
        ) as caught:
            await request(storage)
        assert "wrong-secret" not in f"{caught.value} {caught.value.cause} {storage!r}"


async def test_wrong_azure_key_is_denied(azurite: Server) -> None:
    key = "d3Jvbmcta2V5"
    storage = AzureStorage(BUCKET, "queue.json", **{**azurite.options, "account_key": key})
    for request in REQUESTS.values():
        with pytest.raises(AccessDeniedError, match="403") as caught:
            await request(storage)
        assert key not in f"{caught.value} {caught.value.cause} {storage!r}"


async def test_sas_token_is_not_repeated(azurite: Server) -> None:
    options = {"account_name": AZURITE_ACCOUNT, "endpoint_url": azurite.endpoint_url}
    storage = AzureStorage(BUCKET, "queue.json", sas_token="sv=2021-08-06&sig=wrongsignature", **options)
    with pytest.raises(AccessDeniedError) as caught:
        await storage.read()
    assert "wrongsignature" not in f"{caught.value} {caught.value.cause} {storage!r}"


async def test_missing_credentials_are_told(seaweedfs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    storage = S3Storage(BUCKET, "queue.json", endpoint_url=seaweedfs.endpoint_url)
    with pytest.raises(AccessDeniedError, match="no credentials were found; give them to the storage"):
        await storage.read()
