"""docs/howto/seaweedfs.md: its commands do what it says, on a SeaweedFS that runs."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.contract.servers import BUCKET, seaweedfs
from tests.docs.blocks import blocks

PAGE = "docs/howto/seaweedfs.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


def commands():
    """The commands of bucketq on the page that end by themselves, in their order."""
    text = "".join(block.text for block in blocks(PAGE, "console"))
    lines = re.findall(r"^\$ (bucketq .*)$", text, re.MULTILINE)
    typed = (shlex.split(line, comments=True) for line in lines)
    return [words[1:] for words in typed if words[1] not in ("work", "serve") and "--url" not in words]


def test_its_commands_do_what_it_says(server, tmp_path):
    environment = os.environ | {
        "AWS_ENDPOINT_URL_S3": server.endpoint_url,
        "AWS_ACCESS_KEY_ID": server.options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": server.options["secret_access_key"],
        "BUCKETQ_URL": f"s3://{BUCKET}/jobs.json",
    }
    said = {}
    for words in commands():
        told = [word.replace("queues", BUCKET) for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "bucketq", *told],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        said[words[0]] = done.stdout
    assert list(said) == ["doctor", "init", "enqueue", "stats", "archive", "verify"]
    [shown] = (block.text for block in blocks(PAGE, "text") if block.text.startswith("ok"))
    assert [line[:29] for line in said["doctor"].splitlines()] == [line[:29] for line in shown.splitlines()]
    assert "1 enqueued" in said["stats"]
    assert said["verify"].endswith("sound\n")
