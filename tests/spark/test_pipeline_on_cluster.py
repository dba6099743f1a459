"""The pipeline on a real cluster, whose driver and executors die while they work."""

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from .cluster import Driver, wait_until

# A driver, and what it starts, takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(300)

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


@pytest.fixture
def start_driver(cluster, tmp_path):
    started = []

    def start():
        started.append(Driver(cluster.master, tmp_path / f"driver {len(started)}"))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def test_the_pipeline_survives_the_death_of_its_driver_and_of_an_executor(cluster, queue, start_driver):
    def work(at):
        queue.finish("mail", range(300), batch=50, at=at)
        queue.finish("report", range(100), batch=50, at=at + timedelta(hours=1))

    folder = queue.path.parent
    work(NOON)
    victim = start_driver()
    victim.begin("stopped_at_gold", queue)
    wait_until((folder / "gold").exists)
    victim.kill()
    assert (folder / "lake" / "silver").exists()
    assert not (folder / "lake" / "gold").exists()
    work(NOON + timedelta(hours=6))

    driver = start_driver()
    driver.begin("disturbed", queue)
    wait_until(lambda: list(folder.glob("began-*")))
    partition, _, executor = next(folder.glob("began-*")).name.removeprefix("began-").split("-")
    assert int(executor) in cluster.executors()
    os.kill(int(executor), signal.SIGKILL)
    (folder / "go").write_text("")
    assert driver.answer() == {"is_sound": True, "differing": []}
    assert not (folder / "timeout").exists()
    ended = [path.name.split("-") for path in folder.glob(f"ended-{partition}-*")]
    assert ended, "the task that was lost was run again"
    assert executor not in {name[-1] for name in ended}
