"""The command line, as a script sees it: what it prints, where, and its exit codes."""

import subprocess
import sys

import pytest

from bucketq import DirectQueue, LocalFileSystemStorage


def bucketq(*arguments):
    return subprocess.run([sys.executable, "-m", "bucketq", *arguments], capture_output=True, text=True)


@pytest.fixture
async def queue_file(tmp_path):
    path = tmp_path / "queue.json"
    q = DirectQueue(LocalFileSystemStorage(path))
    await q.enqueue("mail", {"to": "alice"})
    await q.enqueue("mail", {"to": "bob"})
    [job] = await q.dequeue("mail")
    await q.ack(job)
    return path


def test_verify_reports_on_stdout_alone_and_succeeds_for_a_sound_queue(queue_file):
    done = bucketq("verify", f"file://{queue_file}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 live jobs" in done.stdout
    assert done.stdout.endswith("sound\n")


def test_verify_names_the_problem_and_fails_for_a_damaged_queue(queue_file):
    queue_file.write_bytes(queue_file.read_bytes()[:-9])
    done = bucketq("verify", f"file://{queue_file}")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"problem: file://{queue_file}" in done.stdout
    assert done.stdout.endswith("1 problem\n")


@pytest.mark.parametrize("url", ["ftp://host/queue.json", "mongo:x"])
def test_a_url_that_cannot_be_opened_is_one_readable_sentence(url):
    done = bucketq("verify", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bucketq: ")
    assert "Traceback" not in done.stderr
