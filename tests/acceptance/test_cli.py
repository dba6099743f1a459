"""The command line, as a script sees it: what it prints, where, and its exit codes."""

import signal
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


def test_what_cannot_be_done_is_one_readable_sentence():
    done = bucketq("verify", "ftp://host/queue.json")
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("bucketq: ")


def test_a_reader_who_has_seen_enough_is_no_error(queue_file, tmp_path):
    (tmp_path / "many").write_text('{"to": "somebody"}\n' * 2000)
    bucketq("enqueue", "mail", "--lines", "--file", str(tmp_path / "many"), "--url", f"file://{queue_file}")
    command = f"{sys.executable} -m bucketq jobs file://{queue_file} --limit 0 --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_ctrl_c_is_told_as_shells_do(queue_file):
    command = [sys.executable, "-m", "bucketq", "stats", f"file://{queue_file}", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            _, told = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert (watching.returncode, told) == (130, "")
