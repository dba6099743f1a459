"""A fleet loses claims, processes, or its time: nothing is lost by it, and little is done again."""

import asyncio
import os
import signal
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from bucketq import App, ConfigurationError, Running, Settings, provided
from bucketq.codec import decode
from bucketq.retry import fixed
from bucketq.spark import Fleet, run
from bucketq.spark.fleet.pace import BEGIN_WITHIN_S
from tests.spark.cluster import wait_until
from tests.spark.fleets import archive, at_work, check_sound, enqueue, journal

pytestmark = [pytest.mark.timeout(200), pytest.mark.xdist_group("spark tables")]


def test_the_rest_is_given_back_when_a_fleet_stops(spark, queue, tmp_path):
    app = App(queue.url)
    note, read = journal(tmp_path)

    @app.job
    async def work(n: int) -> None:
        note("began", n)
        # The first one ends in time, and then its task begins no other.
        await asyncio.sleep(BEGIN_WITHIN_S + 0.2 if n == 0 else 600)

    enqueue((work, ({"n": n} for n in range(100))))
    with at_work(Fleet(app, spark, grace_s=5, concurrency=1, lanes=2)):
        wait_until(lambda: len(read()) == 2)
    assert len(read()) == 2
    stats = check_sound(queue)
    assert (stats.completed_total, stats.queued, stats.in_progress) == (1, 99, 0)
    jobs = queue.ask(lambda q: q.read_state()).queued_jobs()
    assert {job.attempts for job in jobs} == {0}


def test_a_lost_claim_stops_its_task(spark, queue, tmp_path):
    app = App(queue.url, settings=Settings(stale_after_s=3))
    note, read = journal(tmp_path)

    @app.job
    async def work(running: Running = provided()) -> int:
        note(running.attempt)
        if running.attempt == 1:
            await asyncio.sleep(600)
        return running.attempt

    enqueue((work, [{}]))
    fleet = Fleet(app, spark, grace_s=600)
    with at_work(fleet):
        wait_until(read)
        queue.ask(lambda q: q.requeue_stale(timedelta(0)))
        wait_until(lambda: queue.ask(lambda q: q.stats()).completed_total)
        wait_until(lambda: not fleet.tally.running)
    assert read() == [["1"], ["2"]]
    check_sound(queue)


def test_a_cancelled_job_is_stopped(spark, queue, tmp_path):
    app = App(queue.url, settings=Settings(stale_after_s=3))
    note, read = journal(tmp_path)

    @app.job
    async def work() -> None:
        note("began")
        await asyncio.sleep(600)

    async def begin():
        async with app:
            return await work.enqueue()

    job = asyncio.run(begin())
    with at_work(Fleet(app, spark)):
        wait_until(read)
        queue.ask(lambda q: q.cancel(job))
        wait_until(lambda: queue.ask(lambda q: q.stats()).cancelled_total)
    assert read() == [["began"]]


def test_a_job_that_kills_its_process_takes_no_other_one_along(spark, queue, tmp_path):
    app = App(queue.url)
    note, read = journal(tmp_path)

    @app.job
    def work(n: int, running: Running = provided()) -> int:
        note(n, running.attempt)
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    enqueue((work, ({"n": n} for n in range(40))))
    tally = run(app, spark, until_empty=True)
    stats = check_sound(queue)
    assert (stats.completed_total, stats.dead_total, stats.in_progress, stats.queued) == (39, 1, 0, 0)
    [dead] = queue.ask(_dead)
    assert (dead.json(), dead.crashes, dead.failures) == ({"n": 7}, 3, 0)
    attempts = Counter(int(n) for n, _ in read())
    # Those that ran before it in its task run again, no others.
    again = {n for n, count in attempts.items() if count > 1}
    assert 7 in again
    assert len(again) <= 20
    assert tally.crashed <= 25


async def _dead(q):
    return [job async for job in q.dead()]


def test_an_app_that_cannot_be_run_any_more_costs_no_attempt(spark, queue, tmp_path):
    app = App(queue.url)

    @app.job
    def work(n: int) -> None:
        # The process that comes after this one finds nothing.
        Path(f"{tmp_path}/gone").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)

    @app.resource
    def database() -> float:
        if Path(f"{tmp_path}/gone").exists():
            raise OSError("gone")
        return 1.0

    @app.job
    def other(database: float = provided()) -> None: ...

    enqueue((work, [{"n": 1}]), (other, [{}] * 20))
    with pytest.raises(ConfigurationError, match="OSError: gone"):
        run(app, spark, until_empty=True, lanes=1, batch_size=1)
    jobs = queue.ask(lambda q: q.read_state()).queued_jobs()
    # Another process may still have been able to do some of them.
    assert {(job.attempts, job.crashes) for job in jobs if job.entrypoint == "other"} == {(0, 0)}
    assert {job.failures for job in jobs} == {0}


def test_whole_segments_are_run_by_reference(spark, queue, tmp_path):
    app = App(queue.url, settings=Settings(segment_jobs_max=400))
    note, read = journal(tmp_path)

    @app.job(max_attempts=2, retry=fixed(0))
    def work(n: int, running: Running = provided()) -> int:
        if n == 1200:
            # By now it is known that they are quick: whole segments are claimed.
            note("waits")
            until_s = time.monotonic() + 60
            while not Path(f"{tmp_path}/go").exists() and time.monotonic() < until_s:
                time.sleep(0.1)
        if n % 100 == 50:
            running.enqueue(follow.call(n))
        if n % 100 == 99 and running.attempt == 1:
            raise ValueError("not at once")
        return -n

    @app.job
    def follow(n: int) -> None: ...

    enqueue((work, ({"n": n} for n in range(2000))))
    with at_work(Fleet(app, spark, until_empty=True, results=str(tmp_path / "results"))):
        wait_until(read)
        content = queue.path.read_bytes()
        (tmp_path / "go").write_text("")
        wait_until(
            lambda: (s := queue.ask(lambda q: q.stats())).completed_total == 2020 and not s.in_progress
        )
    held = list(decode(content).backlog.held())
    assert held, "a segment is claimed as a whole"
    assert len(content) < 150_000
    stats = check_sound(queue)
    assert (stats.enqueued_total, stats.completed_total, stats.dead_total) == (2020, 2020, 0)
    archived = archive(spark, queue)
    done = {row.payload_json: row for row in archived if row.entrypoint == "work"}
    assert {row.result for row in done.values()} == {str(-n) for n in range(2000)}
    again = [row for row in done.values() if row.attempts_total == 2]
    assert len(again) == 20
    assert {row.attempts[0].error for row in again} == {"ValueError: not at once"}
    results = spark.read.parquet(str(tmp_path / "results")).collect()
    assert Counter(row.status for row in results) == {"completed": 2020, "failed": 20}


def test_a_segment_of_which_a_slice_dies_and_the_rest_goes_back(spark, queue, tmp_path):
    app = App(queue.url, settings=Settings(segment_jobs_max=1000))
    note, read = journal(tmp_path)

    @app.job
    def work(n: int, running: Running = provided()) -> None:
        note(n, running.attempt)
        if n == 1500 and running.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if n == 2500 and not Path(f"{tmp_path}/stopped").exists():
            note("waits", 0)
            time.sleep(600)

    enqueue((work, ({"n": n} for n in range(4000))))
    with at_work(Fleet(app, spark, grace_s=0.5, batch_size=100)):
        wait_until(lambda: ["waits", "0"] in read())
    stats = check_sound(queue)
    assert stats.in_progress == 0
    assert stats.queued == 4000 - stats.completed_total > 0
    waiting = spark.read.format("bucketq").options(url=queue.url, table="jobs").load().collect()
    assert {row.attempts_total for row in waiting if int(row.payload_json[5:-1]) >= 3000} == {0}
    (tmp_path / "stopped").write_text("")
    tally = run(app, spark, until_empty=True)
    assert (tally.completed, tally.failed) == (stats.queued, 0)
    stats = check_sound(queue)
    assert (stats.completed_total, stats.dead_total) == (4000, 0)
    attempts = Counter(n for n, attempt in read() if n != "waits")
    assert len(attempts) == 4000
    # Of the slice that was killed, and of those that were stopped.
    assert sum(count - 1 for count in attempts.values()) <= 100 * 4
    [job] = [row for row in archive(spark, queue) if row.payload_json == '{"n":1500}']
    assert [attempt.outcome for attempt in job.attempts] == ["stale", "completed"]


def test_a_segment_that_is_lost_runs_again(spark, queue, tmp_path):
    app = App(queue.url, settings=Settings(segment_jobs_max=400, stale_after_s=3))
    note, read = journal(tmp_path)

    @app.job
    def work(n: int, running: Running = provided()) -> None:
        if n == 1200 and running.attempt == 1:
            note("waits")
            time.sleep(600)

    enqueue((work, ({"n": n} for n in range(2000))))
    with at_work(Fleet(app, spark)):
        wait_until(read)
        assert list(decode(queue.path.read_bytes()).backlog.held())
        queue.ask(lambda q: q.requeue_stale(timedelta(0)))
        wait_until(lambda: queue.ask(lambda q: q.stats()).completed_total == 2000)
    stats = check_sound(queue)
    assert (stats.dead_total, stats.queued, stats.in_progress) == (0, 0, 0)
    [job] = [row for row in archive(spark, queue) if row.payload_json == '{"n":1200}']
    assert [attempt.outcome for attempt in job.attempts] == ["stale", "completed"]
