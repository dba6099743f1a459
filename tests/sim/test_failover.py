"""Failover, in short: real brokers on a file and on SeaweedFS, with ten clients at work."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.contract.servers import BUCKET, seaweedfs
from tests.sim.failover import failover, judge_failover
from tests.sim.soak import ROOT

FEW = {"kills": 2, "pauses": 1, "handovers": 1}


def test_clients_of_a_file_see_a_pause_and_nothing_else(tmp_path):
    keep_promises(*failover(tmp_path, f"file://{tmp_path}/queue.json", **FEW))


def test_clients_of_seaweedfs_see_a_pause_and_nothing_else(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    with seaweedfs(folder) as server:
        options = {**server.options, "endpoint_url": server.endpoint_url}
        keep_promises(*failover(tmp_path, f"s3://{BUCKET}/queue.json", **FEW, **options))


def test_a_leader_that_is_cut_off_is_followed_or_waited_for(tmp_path):
    if reason := why_no_namespaces():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    command = ["unshare", "--net", sys.executable, "-m", "tests.sim.partition", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def why_no_namespaces():
    if sys.platform != "linux" or not shutil.which("ip") or not shutil.which("unshare"):
        return "network namespaces need Linux with iproute2 and util-linux: apt-get install iproute2"
    if subprocess.run(["unshare", "--net", "ip", "link", "add", "x", "type", "veth"]).returncode:
        return "network namespaces need root"
    return None


def keep_promises(record, took_s):
    print(f"seconds without a leader: {took_s}")
    assert len(record.versions) > 50, "the clients did work"
    if story := judge_failover(record):
        pytest.fail(story, pytrace=False)
