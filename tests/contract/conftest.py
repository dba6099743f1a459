"""The servers that the storage tests talk to: each is started once, when first asked for."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from bucketq.storage import AzureStorage, GCSStorage, S3Storage
from bucketq.storage.cloud import CloudStorage
from tests.contract.fault_proxy import FaultProxy, fault_proxy
from tests.contract.gcs_fake import fake_gcs
from tests.contract.servers import BUCKET, Server
from tests.contract.servers import azurite as start_azurite
from tests.contract.servers import ministack as start_ministack
from tests.contract.servers import s3rver as start_s3rver
from tests.contract.servers import seaweedfs as start_seaweedfs


@pytest.fixture(scope="session", autouse=True)
def _stay_on_loopback() -> Iterator[None]:
    """Let a storage that was given no credentials ask nobody but a closed port for them."""
    closed = "127.0.0.1:9"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_METADATA_ENDPOINT", f"http://{closed}")
        patch.setenv("IDENTITY_ENDPOINT", f"http://{closed}")
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
            patch.setenv(name, closed)
        yield


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_ministack(tmp_path_factory.mktemp("ministack")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def s3rver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_s3rver(tmp_path_factory.mktemp("s3rver")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[Server]:
    with fake_gcs() as server:
        yield server


CLASSES: dict[str, type[CloudStorage]] = {"seaweedfs": S3Storage, "azurite": AzureStorage, "gcs": GCSStorage}


class Cloud(NamedTuple):
    """A cloud's storage class, and a server for it."""

    storage_class: Callable[..., CloudStorage]
    server: Server


@pytest.fixture(params=CLASSES)
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Each cloud in turn."""
    return Cloud(CLASSES[request.param], request.getfixturevalue(request.param))


@pytest.fixture
def proxy(cloud: Cloud) -> Iterator[FaultProxy]:
    with fault_proxy(cloud.server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def storage(cloud: Cloud, proxy: FaultProxy, request: pytest.FixtureRequest) -> CloudStorage:
    """A storage that reaches its server through the faulty proxy."""
    options = {**cloud.server.options, "endpoint_url": proxy.endpoint_url}
    return cloud.storage_class(BUCKET, f"{request.node.name}.json", **options)
