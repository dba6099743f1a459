"""Failover, in short: real brokers on a file and on SeaweedFS, with ten clients at work."""

import sys
from pathlib import Path

import pytest
from failover import failover, judge_failover

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.contract.servers import BUCKET, seaweedfs

FEW = {"kills": 2, "pauses": 1, "handovers": 1}


def test_clients_of_a_file_see_a_pause_and_nothing_else(tmp_path):
    keep_promises(*failover(tmp_path, f"file://{tmp_path}/queue.json", **FEW))


def test_clients_of_seaweedfs_see_a_pause_and_nothing_else(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    with seaweedfs(folder) as server:
        options = {**server.options, "endpoint_url": server.endpoint_url}
        keep_promises(*failover(tmp_path, f"s3://{BUCKET}/queue.json", **FEW, **options))


def keep_promises(record, took_s):
    print(f"seconds without a leader: {took_s}")
    assert len(record.versions) > 50, "the clients did work"
    if story := judge_failover(record):
        pytest.fail(story, pytrace=False)
