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
from .conftest import need_java

DRIVER = Path(__file__).with_name("on_cluster.py")
WITHIN_S = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    need_java()
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def drive(step, master, queue):
    command = [sys.executable, str(DRIVER), step, master, queue.url, str(queue.path.parent)]
    return subprocess.Popen(
        command,
        env=environment(),
        cwd=queue.path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(driver):
    out, err = driver.communicate(timeout=WITHIN_S)
    assert driver.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def numbers(queue):
    verdict = queue.ask(lambda q: verify(queue.storage))
    assert verdict.problems == []
    return [job.json()["n"] for job in queue.drain()]


def test_a_write_survives_the_death_of_an_executor(cluster, queue):
    driver = drive("killed", cluster.master, queue)
    until_s = time.monotonic() + WITHIN_S
    while len(queue.objects("backlog")) < 2:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until_s
        time.sleep(0.1)
    executors = cluster.executors()
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    (queue.path.parent / "go").write_text("")
    answer_of(driver)
    assert numbers(queue) == list(range(120_000))


def test_a_task_that_is_run_twice_at_once_adds_its_rows_once(cluster, queue):
    answer_of(drive("speculated", cluster.master, queue))
    assert (queue.path.parent / "speculated").exists()
    assert numbers(queue) == list(range(120_000))
    queue.ask(lambda q: q.collect_garbage(), collect_after_s=0.001)
    assert queue.objects("backlog") == []


def test_executors_read_the_archive_and_the_queue(cluster, queue):
    queue.finish("mail", range(2000), batch=500)
    queue.ask(lambda q: q.enqueue_many("mail", range(15_000)))
    assert answer_of(drive("read", cluster.master, queue)) == {
        "archive": 2000,
        "jobs": 15_000,
        "stream": 2000,
    }


def test_spark_connect_reads_writes_and_streams(queue):
    need_java()
    queue.finish("mail", range(1000), batch=500)
    found = answer_of(drive("connected", "local[2]", queue))
    assert found == {"archive": 1000, "jobs": 30_100, "stream": 1000}
