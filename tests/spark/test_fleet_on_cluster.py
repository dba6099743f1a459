"""A fleet on a real cluster, one of whose executors is killed at work."""

import os
import signal

import pytest

from bucketq.archive import Archive
from bucketq.verify import verify

from .cluster import Driver, wait_until

# A driver, and what it starts, takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(300)

JOBS = 200


def began(folder):
    """The runs that have begun: number, attempt and executor of each."""
    names = [path.name.removeprefix("began-") for path in folder.glob("began-*")]
    return sorted(tuple(map(int, name.split("-"))) for name in names)


async def archived(queue):
    return [job async for job in Archive(queue.storage).jobs()]


def test_a_killed_executor_costs_only_its_jobs_an_attempt(cluster, queue, tmp_path):
    queue.ask(lambda q: q.enqueue_many("work", [{"n": n} for n in range(JOBS)]))
    driver = Driver(cluster.master, tmp_path / "log")
    driver.begin("fleet", queue)
    folder = queue.path.parent
    wait_until(lambda: len({executor for _, _, executor in began(folder)}) == 2)
    killed = began(folder)[0][2]
    before = began(folder)
    os.kill(killed, signal.SIGKILL)
    (folder / "go").write_text("")
    tally = driver.answer()
    driver.end()
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
    assert {n for n, attempt, executor in runs if executor != killed and attempt == 1}.isdisjoint(crashed)
