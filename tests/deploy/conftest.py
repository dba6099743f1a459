"""What the tests of deploy/ share: the repository's root, and no way to a cloud."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _stay_on_loopback(monkeypatch):
    """Were a storage to ask for credentials, a closed port would answer."""
    closed = "127.0.0.1:9"
    for name in ("AWS_METADATA_ENDPOINT", "IDENTITY_ENDPOINT"):
        monkeypatch.setenv(name, f"http://{closed}")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
        monkeypatch.setenv(name, closed)
