"""What the acceptance tests share: the repository's root, a real S3 server, and no way to a cloud."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.gcs_fake import fake_gcs
from tests.contract.servers import Server
from tests.contract.servers import seaweedfs as start_seaweedfs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _stay_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that is only constructed must need nothing; were it to ask, a closed port answers."""
    closed = "127.0.0.1:9"
    for name in ("AWS_METADATA_ENDPOINT", "IDENTITY_ENDPOINT"):
        monkeypatch.setenv(name, f"http://{closed}")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
        monkeypatch.setenv(name, closed)


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Server]:
    with fake_gcs() as server:
        yield server
