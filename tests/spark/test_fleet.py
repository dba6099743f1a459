"""An app's jobs on executors: each ends as it does, in whatever company.

The functions that go to executors are local ones: they travel by value, like those of a notebook.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from types import ModuleType

import pytest

from bucketq import App, ConfigurationError, JobFailedError, Running, provided
from bucketq.retry import fixed
from bucketq.spark import Fleet, run
from tests.spark.cluster import WITHIN_S, wait_until
from tests.spark.fleets import archive, at_work, check_sound, enqueue, journal
from tests.spark.java import need_java

pytestmark = [pytest.mark.timeout(200), pytest.mark.xdist_group("spark tables")]

JOBS = """\
from bucketq import App

app = App({url!r})


@app.job
def work(n: int) -> int:
    return n
"""


def test_each_job_ends_by_its_own_outcome(spark, queue):
    app = App(queue.url)

    @app.job
    async def add(a: int, b: int) -> int:
        return a + b

    @app.job
    def shout(text: str, running: Running = provided()) -> str:
        running.enqueue(add.call(1, len(text)))
        return text.upper()

    @app.job(max_attempts=1)
    def fail() -> None:
        raise ValueError("no luck")

    @app.job(max_attempts=2, retry=fixed(0))
    async def fail_once(running: Running = provided()) -> int:
        if running.attempt == 1:
            raise ValueError("not yet")
        return running.attempt

    @app.job(max_attempts=1, timeout=0.2)
    async def sleep() -> None:
        await asyncio.sleep(60)

    @app.job(max_attempts=1, timeout=0.2)
    def doze() -> None:
        time.sleep(1)

    async def enqueue():
        async with app:
            q = await app.opened()
            return await asyncio.gather(
                add.enqueue(2, 3), shout.enqueue("hey"), fail.enqueue(), fail_once.enqueue(), sleep.enqueue(),
                doze.enqueue(), q.enqueue("add", {"a": 1, "c": 2}),
            )  # fmt: skip

    jobs = asyncio.run(enqueue())
    tally = run(app, spark, until_empty=True)

    async def results(q):
        return await asyncio.gather(*(q.result(job, 30) for job in jobs), return_exceptions=True)

    found = [end.error if isinstance(end, JobFailedError) else end for end in queue.ask(results)]
    assert found[:4] == [5, "HEY", "ValueError: no luck", 2]
    assert found[4:6] == ["timed out after 0.2 s"] * 2
    assert found[6].startswith("PayloadError: the arguments do not fit")
    # One more was enqueued by a handler, and one was tried twice.
    assert (tally.completed, tally.failed, tally.crashed, tally.running) == (4, 5, 0, 0)
    stats = check_sound(queue)
    assert (stats.completed_total, stats.dead_total, stats.queued, stats.in_progress) == (4, 4, 0, 0)


def test_resources_are_opened_once_a_process_and_callbacks_hear_of_jobs(spark, queue, tmp_path):
    app = App(queue.url)
    note, read = journal(tmp_path)

    class Database:
        pass

    @app.resource
    async def database() -> AsyncIterator[Database]:
        note("opened", os.getpid())
        yield Database()

    @app.job
    async def write(n: int, database: Database = provided()) -> None:
        note("written", os.getpid(), n, id(database))

    @app.job
    def read_back(n: int, database: Database = provided()) -> None:
        note("read", os.getpid(), n, id(database))

    @app.around_run
    async def around(running, go):
        note("around", os.getpid(), running.job.json()["n"])
        return await go()

    @app.on("completed")
    def tell(event):
        note("completed", os.getpid(), event.job.json()["n"])

    enqueue((write, ({"n": n} for n in range(60))), (read_back, ({"n": n} for n in range(60))))
    run(app, spark, until_empty=True, batch_size=20)
    lines = read()
    used = {
        (pid, database) for what, pid, *rest in lines if what in ("written", "read") for database in rest[1:]
    }
    opened = [pid for what, pid in ((line[0], line[1]) for line in lines) if what == "opened"]
    assert len(opened) == len(set(opened)) <= 2
    assert len(used) == len({pid for pid, _ in used})
    assert Counter(line[0] for line in lines) == {
        "opened": len(opened), "written": 60, "read": 60, "around": 120, "completed": 120,
    }  # fmt: skip


def test_results_are_a_table(spark, queue, tmp_path):
    app = App(queue.url)

    @app.job(max_attempts=1)
    def halve(n: int) -> dict[str, int]:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return {"half": n // 2}

    enqueue((halve, ({"n": n} for n in range(50))))
    run(app, spark, until_empty=True, results=str(tmp_path / "results"))
    rows = spark.read.parquet(str(tmp_path / "results")).collect()
    assert sorted(row.result for row in rows if row.status == "completed") == sorted(
        f'{{"half":{n}}}' for n in range(25)
    )
    failed = [row for row in rows if row.status == "failed"]
    assert {row.error for row in failed} == {f"ValueError: {n} is odd" for n in range(1, 50, 2)}
    assert {(row.entrypoint, row.attempt) for row in rows} == {("halve", 1)}
    assert all(row.started_at <= row.finished_at for row in rows)
    assert {row.job_id for row in rows} == {row.id for row in archive(spark, queue)}


def test_a_fleet_waits_for_jobs(spark, queue, tmp_path):
    app = App(queue.url)

    @app.job
    def double(n: int) -> int:
        return 2 * n

    with at_work(Fleet(app, spark)):

        async def ask(n):
            async with app:
                return await double.result(await double.enqueue(n), timeout=WITHIN_S)

        assert [asyncio.run(ask(n)) for n in (3, 4)] == [6, 8]


def test_an_app_that_executors_cannot_run_claims_nothing(spark, queue, tmp_path):
    app = App(queue.url)

    class Database:
        pass

    @app.resource
    def database() -> Database:
        raise OSError("no route to the database")

    @app.job
    def work(database: Database = provided()) -> None: ...

    enqueue((work, [{}]))
    with pytest.raises(ConfigurationError, match="OSError: no route to the database"):
        run(app, spark, until_empty=True)
    [job] = queue.ask(lambda q: q.read_state()).queued_jobs()
    assert (job.attempts, job.history) == (0, ())


def test_an_app_that_executors_cannot_import_claims_nothing(spark, queue, monkeypatch):
    module = ModuleType("only_on_the_driver")
    module.app = app = App(queue.url)
    monkeypatch.setitem(sys.modules, "only_on_the_driver", module)

    @app.job
    def work() -> None: ...

    enqueue((work, [{}]))
    with pytest.raises(ConfigurationError, match="there is no module only_on_the_driver"):
        run(app, spark, until_empty=True)
    assert queue.ask(lambda q: q.stats()).queued == 1


def test_a_notebook_runs_a_fleet_in_a_cell(spark, queue):
    app = App(queue.url)

    @app.job
    def work() -> None: ...

    enqueue((work, [{}] * 3))

    async def cell():
        return run(app, spark, until_empty=True)

    assert asyncio.run(cell()).completed == 3


@pytest.mark.parametrize("options", [{"lanes": 0}, {"batch_size": 0}, {"entrypoints": ["other"]}])
def test_options_that_make_no_sense_are_refused(spark, queue, options):
    app = App(queue.url)

    @app.job
    def work() -> None: ...

    with pytest.raises(ConfigurationError, match="|".join(options) + "|other"):
        Fleet(app, spark, **options)


def test_the_command_runs_a_fleet_until_it_is_told_to_stop(queue, tmp_path):
    need_java()
    (tmp_path / "jobs.py").write_text(JOBS.format(url=queue.url))
    queue.ask(lambda q: q.enqueue_many("work", [{"n": n} for n in range(20)]))
    command = [sys.executable, "-m", "bucketq", "work", "jobs:app", "--on", "spark"]
    command += ["--spark-master", "local[1]"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: queue.ask(lambda q: q.stats()).completed_total == 20)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert "stopped: 0 running, 20 completed, 0 failed, 0 crashed" in errors
