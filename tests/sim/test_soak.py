"""The soak, in short: real processes under SIGKILL on a file and on SeaweedFS."""

import pytest

from tests.contract.servers import BUCKET, seaweedfs
from tests.sim.soak import judge, soak

SECONDS = 8
# On a busy machine they take longer.
COMMITS = 50


def test_processes_on_a_file_under_kills(tmp_path):
    keep_promises(soak(tmp_path, SECONDS, f"file://{tmp_path}/queue.json", commits=COMMITS))


def test_processes_on_seaweedfs_under_kills(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    with seaweedfs(folder) as server:
        options = {**server.options, "endpoint_url": server.endpoint_url}
        keep_promises(soak(tmp_path, SECONDS, f"s3://{BUCKET}/queue.json", commits=COMMITS, **options))


def keep_promises(record):
    assert len(record.versions) > COMMITS, "the crew did work"
    if story := judge(record):
        pytest.fail(story, pytrace=False)
