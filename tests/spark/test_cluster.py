"""The source and the sink on a real cluster, with executors that die, and through Spark Connect."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bucketq.verify import verify

from .cluster import environment, standalone
from .java import need_java

DRIVER = Path(__file__).with_name("on_cluster.py")
WITHIN_S = 200

# A driver, and what it starts, takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(300)


class Driver:
    """A driver process, which does one step after the other."""

    def __init__(self, master, log):
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(DRIVER), master],
                env=environment(),
                cwd=log.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def begin(self, step, queue):
        self._process.stdin.write(f"{step} {queue.url} {queue.path.parent}\n")
        self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)

    def do(self, step, queue):
        self.begin(step, queue)
        return self.answer()

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    need_java()
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(cluster, tmp_path_factory):
    driver = Driver(cluster.master, tmp_path_factory.mktemp("driver") / "log")
    yield driver
    driver.end()


def numbers(queue):
    verdict = queue.ask(lambda q: verify(queue.storage))
    assert verdict.problems == []
    return [job.json()["n"] for job in queue.drain()]


def test_executors_read_the_archive_and_the_queue(driver, queue):
    queue.finish("mail", range(2000), batch=500)
    queue.ask(lambda q: q.enqueue_many("mail", range(15_000)))
    assert driver.do("read", queue) == {"archive": 2000, "jobs": 15_000, "stream": 2000}


def test_a_task_that_is_run_twice_at_once_adds_its_rows_once(driver, queue):
    driver.do("speculated", queue)
    assert (queue.path.parent / "speculated").exists()
    assert not (queue.path.parent / "timeout").exists(), "the first one waited until the second one was done"
    assert numbers(queue) == list(range(120_000))
    queue.ask(lambda q: q.collect_garbage(), collect_after_s=0.001)
    assert queue.objects("backlog") == []


def test_a_write_survives_the_death_of_an_executor(cluster, driver, queue):
    driver.begin("killed", queue)
    until_s = time.monotonic() + WITHIN_S
    while len(cluster.executors()) < 2 or len(queue.objects("backlog")) < 2:
        assert time.monotonic() < until_s
        time.sleep(0.1)
    executors = cluster.executors()
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    (queue.path.parent / "go").write_text("")
    driver.answer()
    assert not (queue.path.parent / "timeout").exists()
    again = [path.name for path in queue.path.parent.glob("attempt-*-[1-9]")]
    assert again, "a task that was on the dead executor was run again"
    assert numbers(queue) == list(range(120_000))


def test_spark_connect_reads_writes_and_streams(queue, tmp_path):
    need_java()
    queue.finish("mail", range(1000), batch=500)
    driver = Driver("local[2]", tmp_path / "log")
    found = driver.do("connected", queue)
    assert found == {"archive": 1000, "jobs": 30_100, "stream": 1000}
    driver.end()
