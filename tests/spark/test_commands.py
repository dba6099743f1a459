"""`bucketq pipeline` and `bucketq replay`, as people run them."""

import re
import signal
import subprocess
import sys
import time

import pytest

from bucketq.cli.__main__ import main
from bucketq.cli.steps import Steps
from bucketq.words import spell_jobs
from tests.spark.java import need_java

# Java starts slowly where the machine is busy.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("spark lake")]

BUCKETQ = [sys.executable, "-m", "bucketq"]
LIGHT = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1"]


@pytest.fixture
def command(lasting, tmp_path, monkeypatch, capfd):
    """Runs a command in this process, whose Spark is warm; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments, code=0):
        capfd.readouterr()
        found = main(arguments)
        printed = capfd.readouterr()
        assert found == code, printed
        return printed

    return command


def test_mistakes_are_told_in_one_line(queue, command):
    url = ["--url", queue.url]
    none = command("pipeline", "run", *url, code=2)
    assert none.err.startswith("bucketq: there is no queue at"), "before Spark is started"
    queue.ask(lambda q: q.enqueue("mail"))
    wrong = command("pipeline", "run", *url, "--conf", "nonsense", code=2)
    assert wrong.err == "bucketq: --conf takes KEY=VALUE, not 'nonsense'\n"
    missing = command("pipeline", "report", "--out", "nowhere", "--watch", "5", code=2)
    assert missing.err.startswith("bucketq: which queue? Name it by --url")
    for option, value, said in (("--days", "0", "1 or more"), ("--watch", "0", "more than 0")):
        wrong = command("pipeline", "report", *url, option, value, code=2)
        assert re.fullmatch(f"bucketq: {option} is how many .*{said}, not 0\n", wrong.err)
    unread = command("pipeline", "run", *url, "--targets", "none.toml", code=2)
    assert "the targets in none.toml cannot be read" in unread.err


def test_run_and_replay_say_what_they_did_and_nothing_else(queue, command, tmp_path):
    ids = queue.finish("mail", range(20), batch=10)
    lake = ["--out", str(tmp_path / "lake"), *LIGHT]
    url = ["--url", queue.url]
    first, _ = (tmp_path / "queue" / name for name in queue.objects("archive"))
    first.write_text(first.read_text().replace('"v":1', '"v":1,"error":{}', 1))
    ran = command("pipeline", "run", *url, *lake, code=1)
    assert re.match(r"days made anew: \d{4}-\d\d-\d\d\nevery job once: yes \(0 ", ran.out)
    assert "nothing in quarantine: NO (1 records could not be read)" in ran.out
    where = ["--where", f"id <= '{sorted(ids)[4]}' AND status = 'completed'"]
    replayed = command("replay", *url, *lake, *where)
    count = len(queue.drain())
    assert replayed.out == f"{spell_jobs(count)} enqueued\n"
    assert count > 0
    for done in (ran, replayed):
        assert done.err == ""


def test_watch_goes_on_until_it_is_interrupted(queue, tmp_path):
    need_java()
    (tmp_path / "lake").write_text("in the way")
    watch = [*BUCKETQ, "pipeline", "report", "--watch", "0.5", "--url", queue.url, *LIGHT]
    with subprocess.Popen(
        watch, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        try:
            assert "lake" in watching.stderr.readline(), "Spark cannot write there"
            (tmp_path / "lake").unlink()
            wait_for_line(watching.stderr, "there is no queue at")
            queue.ask(lambda q: q.enqueue("mail"))
            wait_for_line(watching.stderr, "there is nothing to report in lake yet")
            queue.finish("mail", range(20), batch=10)
            assert watching.stdout.readline() == "report.html is written\n"
            watching.send_signal(signal.SIGINT)
            _, errors = watching.communicate(timeout=100)
        finally:
            watching.kill()
    assert watching.returncode == 130
    assert all(line.startswith("bucketq: ") for line in errors.splitlines()), errors


def wait_for_line(stream, text):
    """Every line on the way is one of an error, told in a sentence."""
    for line in stream:
        assert line.startswith("bucketq: "), line
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")


def test_a_failure_of_spark_is_one_sentence(queue, command):
    queue.finish("mail", range(2), batch=2)
    run = ["pipeline", "run", "--url", queue.url, "--out", "s3a://nowhere/lake", *LIGHT]
    failed = command(*run, code=2)
    told = "the step 'lake' failed: java.lang.ClassNotFoundException: Class .* not found"
    assert re.fullmatch(rf"bucketq: {told} \(--verbose tells more\)\n", failed.err)


def test_bars_move_with_the_tasks_of_a_step(spark, tmp_path):
    told = []

    def on_progress(step, done, total):
        told.append((step, done, total))
        if 0 < done == total - 1:
            (tmp_path / "moved").touch()

    def wait_at_last(number, rows):
        while number == 3 and not (tmp_path / "moved").exists():
            time.sleep(0.05)
        return rows

    steps = Steps(on_progress)
    steps.begin("silver")
    with steps.followed(spark):
        spark.sparkContext.parallelize(range(4), 4).mapPartitionsWithIndex(wait_at_last).count()
    steps.begin("gold")
    assert ("silver", 3, 4) in told
    assert told[-2:] == [("silver", 1, 1), ("gold", 0, 1)]
