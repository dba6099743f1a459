"""`bucketq init`, and what a newcomer does next, by what it says."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import typed


@pytest.fixture
def bucketq_in(tmp_path):
    """The command, as a process of its own, in an empty folder, whose name is what people call folders."""
    folder = tmp_path / "my #1 folder, 50% done"
    folder.mkdir()

    def bucketq(*arguments, **options):
        command = [sys.executable, "-m", "bucketq", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, **options)

    bucketq.folder = folder
    return bucketq


def test_from_nothing_to_a_finished_job_by_what_init_says(bucketq_in):
    made = bucketq_in("init")
    assert (made.returncode, made.stderr) == (0, "")
    commands = [
        shlex.split(re.split(r" {3,}", line.strip())[0])[1:]
        for line in made.stdout.partition("Next:\n")[2].splitlines()
    ]
    enqueue, work, stats, archive = commands
    assert (enqueue[0], work[0], stats, archive) == ("enqueue", "work", ["stats"], ["archive"])
    job_id = bucketq_in(*enqueue).stdout.strip()
    command = [sys.executable, "-m", "bucketq", *work]
    with subprocess.Popen(command, cwd=bucketq_in.folder, stderr=subprocess.PIPE) as worker:
        try:
            waited = bucketq_in("enqueue", "hello", '{"name": "Bob"}', "--wait", "30s")
            worker.send_signal(signal.SIGINT)
            worker.communicate(timeout=60)
        finally:
            worker.kill()
    assert (waited.returncode, waited.stdout) == (0, '"Hello, Bob!"\n')
    assert bucketq_in(*stats).returncode == 0
    finished = [json.loads(line) for line in bucketq_in(*archive, "--json").stdout.splitlines()]
    assert {one["id"]: one["result"] for one in finished}[job_id] == "Hello, Ada!"
    assert bucketq_in("verify").returncode == 0


def test_twice_changes_nothing(tmp_path, capsys):
    typed(capsys, "init")
    mine = f'url = "{(tmp_path / "queue.json").as_uri()}"  # mine'
    for name in ("bucketq.toml", "jobs.py"):
        (tmp_path / name).write_text(mine)
    again = typed(capsys, "init")
    assert again.code == 0
    assert again.out.count("stays as it is") == 2
    assert [(tmp_path / name).read_text() for name in ("bucketq.toml", "jobs.py")] == [mine] * 2


def test_a_url_is_taken_and_one_that_cannot_be_leaves_nothing_behind(tmp_path, capsys):
    refused = typed(capsys, "init", "ftp://host/queue.json")
    assert (refused.code, refused.out) == (2, "")
    assert list(tmp_path.iterdir()) == []
    assert typed(capsys, "init", f"file://{tmp_path}/elsewhere.json").code == 0
    typed(capsys, "enqueue", "hello", '{"name": "Ada"}')
    assert (tmp_path / "elsewhere.json").exists()


@pytest.mark.skipif(not Path("/proc").exists(), reason="no folder here that nobody can write to")
def test_a_folder_that_cannot_be_written_is_a_sentence(capsys, monkeypatch):
    monkeypatch.chdir("/proc")
    told = typed(capsys, "init")
    assert (told.code, told.out) == (2, "")
    assert "bucketq.toml cannot be written" in told.err


def test_what_it_did_can_be_told_as_json(tmp_path, capsys):
    told = typed(capsys, "init", "--json").json
    assert told == {"url": f"{tmp_path.as_uri()}/queue.json", "written": ["bucketq.toml", "jobs.py"]}
    assert typed(capsys, "init", "--json").json["written"] == []


def test_another_url_than_the_one_in_bucketq_toml_is_rejected(tmp_path, capsys, monkeypatch):
    old, new = f"file://{tmp_path}/old.json", f"file://{tmp_path}/new.json"
    typed(capsys, "init", old)
    before = (tmp_path / "bucketq.toml").read_text()
    for arguments in (["init", new], ["init", "--url", new, "--json"]):
        told = typed(capsys, *arguments)
        assert (told.code, told.out) == (2, "")
        assert all(part in told.err for part in (old, f'url = "{new}"'))
    monkeypatch.setenv("BUCKETQ_URL", new)
    assert typed(capsys, "init").code == 2
    assert (tmp_path / "bucketq.toml").read_text() == before


def test_the_url_of_bucketq_toml_can_be_given_again(tmp_path, capsys):
    url = f"file://{tmp_path}/old.json"
    typed(capsys, "init", url)
    assert typed(capsys, "init", url).code == 0
    assert typed(capsys, "init").code == 0


def test_a_url_is_rejected_next_to_a_bucketq_toml_without_one(tmp_path, capsys):
    (tmp_path / "bucketq.toml").write_text("[work]\nconcurrency = 3\n")
    told = typed(capsys, "init", f"file://{tmp_path}/new.json")
    assert (told.code, told.out) == (2, "")
    assert f'url = "file://{tmp_path}/new.json"' in told.err
    assert not (tmp_path / "jobs.py").exists()
