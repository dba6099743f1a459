"""What runs on a real cluster, whose executors and drivers die while it works; and Spark Connect."""

import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from pyarrow.dataset import dataset

from bucketq.archive import Archive
from bucketq.verify import verify
from tests.spark.cluster import Driver, wait_until
from tests.spark.java import need_java

# A driver, and what it starts, takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("spark cluster")]

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
JOBS = 200


@pytest.fixture(scope="module")
def drivers(cluster, tmp_path_factory):
    """A function for the driver; it is a new one where the last has died, or has not done what it should."""
    folder, started = tmp_path_factory.mktemp("drivers"), []

    def driver():
        if not started or not started[-1].is_idle():
            for one in started:
                one.kill()
            started.append(Driver(cluster.master, folder / f"log {len(started)}"))
        return started[-1]

    yield driver
    for one in started:
        one.end()


@pytest.fixture
def driver(drivers):
    return drivers()


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
    assert numbers(queue) == list(range(40_000))
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
    assert numbers(queue) == list(range(40_000))


def began(folder):
    """The runs that have begun: number, attempt and executor of each."""
    names = [path.name.removeprefix("began-") for path in folder.glob("began-*")]
    return sorted(tuple(map(int, name.split("-"))) for name in names)


async def archived(queue):
    return [job async for job in Archive(queue.storage).jobs()]


def test_a_killed_executor_costs_only_its_jobs_an_attempt(driver, queue):
    queue.ask(lambda q: q.enqueue_many("work", [{"n": n} for n in range(JOBS)]))
    driver.begin("fleet", queue)
    folder = queue.path.parent
    wait_until(lambda: len({executor for _, _, executor in began(folder)}) == 2)
    killed = began(folder)[0][2]
    before = began(folder)
    os.kill(killed, signal.SIGKILL)
    (folder / "go").write_text("")
    tally = driver.answer()
    assert not (folder / "timeout").exists()
    verdict = queue.ask(lambda q: verify(queue.storage))
    assert verdict.problems == []
    jobs = queue.ask(lambda q: archived(queue))
    assert sorted(job.result for job in jobs) == list(range(JOBS)), "nothing is lost, and nothing done twice"
    assert (tally["completed"], tally["failed"], tally["running"]) == (JOBS, 0, 0)
    crashed = {job.json()["n"] for job in jobs if job.attempts_total > 1}
    assert len(crashed) == tally["crashed"] > 0
    assert {tuple(one.outcome for one in job.attempts) for job in jobs} == {
        ("completed",),
        ("stale", "completed"),
    }
    # Its jobs have run again, and no others.
    runs = began(folder)
    assert {n for n, attempt, _ in runs if attempt == 2} == crashed
    assert {n for n, _, executor in before if executor == killed} <= crashed
    # Python's processes outlive their executor for a moment, and then have another parent.
    others = {executor for _, _, executor in before} - {killed}
    assert {n for n, attempt, executor in runs if executor in others and attempt == 1}.isdisjoint(crashed)


def test_the_pipeline_survives_the_death_of_its_driver_and_of_an_executor(cluster, queue, drivers):
    def work(at):
        queue.finish("mail", range(300), batch=50, at=at)
        queue.finish("report", range(100), batch=50, at=at + timedelta(hours=1))

    folder = queue.path.parent
    work(NOON)
    victim = drivers()
    victim.begin("stopped_at_gold", queue)
    wait_until((folder / "gold").exists)
    victim.kill()
    assert (folder / "lake" / "silver").exists()
    assert not (folder / "lake" / "gold").exists()
    work(NOON + timedelta(hours=6))

    driver = drivers()
    driver.begin("disturbed", queue)
    wait_until(lambda: list(folder.glob("began-*")))
    partition, _, executor = next(folder.glob("began-*")).name.removeprefix("began-").split("-")
    assert int(executor) in cluster.executors()
    os.kill(int(executor), signal.SIGKILL)
    (folder / "go").write_text("")
    assert driver.answer() == {"is_sound": True}
    check_lake(folder / "lake", queue)
    assert not (folder / "timeout").exists()
    ended = [path.name.split("-") for path in folder.glob(f"ended-{partition}-*")]
    assert ended, "the task that was lost was run again"
    assert executor not in {name[-1] for name in ended}


def check_lake(lake, queue):
    """Every archived job is in silver once, and gold has counted it once."""

    def rows(*parts):
        # Not by Spark, which would take a dozen jobs for this.
        return dataset(lake.joinpath(*parts), partitioning="hive").to_table().to_pylist()

    jobs = queue.ask(lambda q: archived(queue))
    assert sorted(row["id"] for row in rows("silver")) == sorted(job.id for job in jobs)
    counted = Counter()
    for row in rows("gold", "activity"):
        counted[row["window"], row["entrypoint"]] += row["finished"]
    assert {name: count for (window, name), count in counted.items() if window == "day"} == {
        "mail": 600, "report": 200, None: 800,
    }  # fmt: skip
    assert counted["minute", None] == counted["hour", None] == 800
    assert {row["entrypoint"]: row["jobs"] for row in rows("gold", "slo")} == {"mail": 600, "report": 200}


def test_spark_connect_reads_writes_and_streams(queue, tmp_path):
    need_java()
    queue.finish("mail", range(1000), batch=500)
    driver = Driver("local[2]", tmp_path / "log")
    found = driver.do("connected", queue)
    assert found == {"archive": 1000, "jobs": 8_100, "stream": 1000}
    driver.end()
