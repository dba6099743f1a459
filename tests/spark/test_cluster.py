"""The source and the sink on a real cluster, with executors that die, and through Spark Connect."""

import os
import signal

import pytest

from bucketq.verify import verify

from .cluster import Driver, wait_until
from .java import need_java

# A driver, and what it starts, takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(300)


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
    wait_until(lambda: len(cluster.executors()) >= 2 and len(queue.objects("backlog")) >= 2)
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
