"""The worker in this process: what it does with jobs, handlers, resources and the queue's answers."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from bucketq import (
    App,
    ConfigurationError,
    JobFailedError,
    JobNotDoneError,
    JobStatus,
    Running,
    Settings,
    StorageError,
    provided,
)
from bucketq.app import current
from bucketq.app.worker import Worker
from bucketq.retry import GiveUp, Retry, fixed

SOON_S = 10


@pytest.fixture
def app():
    return App("memory://", settings=Settings(stale_after_s=0.9, retry_for_s=0.2))


@asynccontextmanager
async def working(app, **options):
    worker = Worker(app, **options)
    async with app:
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await running


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not (found := condition()):
            await asyncio.sleep(0.005)
    return found


async def reason(handler, job):
    """Why a job is dead."""
    with pytest.raises(JobFailedError) as failed:
        await handler.result(job, timeout=SOON_S)
    return failed.value.error


async def test_jobs_run_and_their_results_come_back(app):
    @app.job
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.job
    def join(parts: list[str]) -> str:
        return "".join(parts)

    async with working(app) as worker:
        assert await add.result(await add.enqueue(2, b=3), timeout=SOON_S) == 5
        assert await join.result(await join.enqueue(["a", "b"]), timeout=SOON_S) == "ab"
        assert worker.counts == (0, 2, 0)


async def test_it_takes_only_what_it_handles(app):
    seen = []

    @app.job
    async def mine() -> None:
        seen.append("mine")

    @app.job
    async def other() -> None:
        seen.append("other")

    async with working(app, entrypoints=["mine"]):
        queue = await app.opened()
        await queue.enqueue("nobody's")
        await other.enqueue()
        await mine.result(await mine.enqueue(), timeout=SOON_S)
        assert (await queue.stats()).queued == 2
    assert seen == ["mine"]


async def test_no_more_jobs_run_at_once_than_there_are_slots(app):
    running, most = 0, 0

    @app.job
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async with app:
        await count.enqueue_many({} for _ in range(30))
    async with working(app, concurrency=4):
        queue = await app.opened()
        ids = await count.enqueue_many({} for _ in range(30))
        await queue.result(ids[-1], timeout=SOON_S)
    assert most == 4


async def test_claims_and_acks_share_commits(app):
    @app.job
    async def nothing(n: int) -> None: ...

    async with working(app, concurrency=10):
        queue = await app.opened()
        await until(lambda: queue._group._committer.state)
        ids = await nothing.enqueue_many({"n": n} for n in range(100))
        before = queue._group._committer.state.version
        await queue.result(ids[-1], timeout=SOON_S)
        # One for each ten jobs; with a commit of its own for each claim and each ack it were 20 and more.
        assert queue._group._committer.state.version - before <= 14


async def test_a_failed_job_is_tried_again_by_its_policy_with_its_error_kept(app):
    attempts = []

    @app.job(retry=fixed(0.01), max_attempts=3)
    async def shaky() -> str:
        attempts.append(current().attempt)
        if len(attempts) < 3:
            raise OSError("no such host")
        return "at last"

    async with working(app):
        assert await shaky.result(await shaky.enqueue(), timeout=SOON_S) == "at last"
    assert attempts == [1, 2, 3]


async def test_a_policy_may_give_up_at_once(app):
    @app.job(retry=lambda failure: GiveUp() if isinstance(failure.exception, ValueError) else None)
    async def wrong() -> None:
        raise ValueError("no such user")

    async with working(app):
        assert await reason(wrong, await wrong.enqueue()) == "ValueError: no such user"


async def test_a_payload_that_does_not_fit_is_dead_with_a_readable_reason(app):
    @app.job
    async def mail(to: str, copies: int = 1) -> None: ...

    async with working(app):
        queue = await app.opened()
        job = await queue.enqueue("mail", {"to": "alice", "copies": "two"})
        why = await reason(mail, job)
        assert "do not fit" in why
        assert "copies" in why
        [dead] = [job async for job in queue.dead("mail")]
        assert dead.attempts == 1


async def test_a_result_that_is_no_json_is_dead_and_not_run_again(app):
    runs = []

    @app.job
    async def odd():
        runs.append(1)
        return object()

    async with working(app):
        assert "it ran, but the result is not JSON" in await reason(odd, await odd.enqueue())
    assert runs == [1]


async def test_a_handler_that_cancels_itself_has_failed(app):
    @app.job(max_attempts=1)
    async def giving_in() -> None:
        raise asyncio.CancelledError

    async with working(app):
        assert "CancelledError" in await reason(giving_in, await giving_in.enqueue())


async def test_what_a_job_enqueues_comes_with_its_completion_or_not_at_all(app):
    seen = []

    @app.job
    async def child(n: int) -> None:
        seen.append(n)

    @app.job(max_attempts=1)
    async def parent(n: int, running: Running = provided()) -> None:
        running.enqueue(child.call(n=n))
        if n < 0:
            raise ValueError("negative")

    @app.job(max_attempts=1)
    async def hopeless(running: Running = provided()) -> None:
        running.enqueue(child.using(after=["no-such-job"]).call(n=3))

    async with working(app):
        await parent.result(await parent.enqueue(1), timeout=SOON_S)
        assert await reason(parent, await parent.enqueue(-1)) == "ValueError: negative"
        await until(lambda: seen)
        assert "what it enqueues was refused" in await reason(hopeless, await hopeless.enqueue())
    assert seen == [1]


async def test_a_cancelled_job_stops_its_handler_and_ends(app):
    stopped = []

    @app.job
    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            # Cleaning up takes its time, and another heartbeat does not disturb it.
            await asyncio.sleep(0.8)
            stopped.append("in order")
            raise

    async with working(app) as worker:
        job = await endless.enqueue()
        await until(lambda: worker.counts[0] == 1)
        await (await app.opened()).cancel(job)
        assert await until(lambda: stopped) == ["in order"]
        with pytest.raises(JobNotDoneError):
            await endless.result(job, timeout=SOON_S)


async def test_a_lost_claim_stops_its_handler_and_its_outcome_is_dropped(app, caplog):
    begun, stopped = [], []

    @app.job
    async def endless() -> None:
        begun.append(current().job)
        if len(begun) > 1:
            return
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(1)

    async with working(app):
        job = await endless.enqueue()
        await until(lambda: begun)
        # As if its worker had been silent: somebody gives it back, and it is claimed anew.
        await (await app.opened()).release(job.id)
        await endless.result(job, timeout=SOON_S)
        await until(lambda: stopped)
    assert len({job.token for job in begun}) == 2


async def test_heartbeats_keep_long_jobs_and_tell_their_progress(app):
    go = asyncio.Event()

    @app.job
    async def long(running: Running = provided()) -> int:
        running.report(0.4, "page 4")
        await go.wait()
        return running.attempt

    async with working(app):
        queue = await app.opened()
        job = await long.enqueue()
        while not ((found := await queue.find(job)) and found.note == "page 4"):
            await asyncio.sleep(0.05)
        assert found.progress == 0.4
        first_s = time.monotonic()
        while time.monotonic() - first_s < 3 * queue.settings.stale_after_s:
            await asyncio.sleep(0.1)
        go.set()
        assert await long.result(job, timeout=SOON_S) == 1


async def test_timeouts_end_async_handlers_and_let_threads_linger(app):
    stopped, returned = [], threading.Event()

    @app.job(timeout=0.2, max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(1)

    @app.job(timeout=0.2, max_attempts=1)
    def stuck() -> None:
        returned.wait(SOON_S)

    @app.job
    async def quick() -> None: ...

    async with working(app, concurrency=1):
        assert "timed out after 0.2 s" in await reason(slow, await slow.enqueue())
        assert stopped == [1]
        assert "timed out after 0.2 s" in await reason(stuck, await stuck.enqueue())
        # The thread cannot be stopped, and has the only slot until it returns.
        job = await quick.enqueue()
        with pytest.raises(TimeoutError):
            await quick.result(job, timeout=0.3)
        returned.set()
        await quick.result(job, timeout=SOON_S)


async def test_what_timed_out_is_tried_again_as_its_policy_says(app):
    @app.job(timeout=0.5, retry=lambda failure: Retry(3600))
    async def slow():
        await asyncio.Event().wait()

    @app.job(timeout=0.5, retry=lambda failure: GiveUp())
    async def hopeless():
        await asyncio.Event().wait()

    async with working(app) as worker:
        queue = await app.opened()
        later, dead = await slow.enqueue(), await hopeless.enqueue()
        assert "timed out" in await reason(hopeless, dead)
        await until(lambda: worker.counts == (0, 0, 2))
    found = (await queue.read_state()).find(later.id)
    assert (found.status, found.attempts) == ("scheduled", 1)


async def test_a_handler_that_runs_by_the_clock_needs_no_arguments(app):
    @app.job(cron="0 3 * * *")
    async def nightly(day: int): ...

    with pytest.raises(ConfigurationError, match="nightly runs by the clock, so all of its parameters"):
        await Worker(app).run()


async def test_stop_lets_handlers_finish_and_gives_back_the_rest_for_free(app):
    go = asyncio.Event()

    @app.job
    async def finishing() -> str:
        await go.wait()
        return "done"

    @app.job
    async def endless() -> None:
        await asyncio.sleep(60)

    @app.job
    def stuck() -> None:
        time.sleep(1)

    async with app:
        worker = Worker(app, grace_s=0.3)
        running = asyncio.create_task(worker.run())
        finished, given_back, left = await finishing.enqueue(), await endless.enqueue(), await stuck.enqueue()
        await until(lambda: worker.counts[0] == 3)
        worker.stop()
        await asyncio.sleep(0)
        waiting = await endless.enqueue()
        go.set()
        await running
        queue = await app.opened()
        assert await finishing.result(finished, timeout=1) == "done"
        for job in (given_back, left):
            found = await queue.find(job)
            assert found.status is JobStatus.QUEUED
            assert found.attempts == 0
            assert found.history[-1].outcome.value == "released"
        assert not (await queue.find(waiting)).history


async def test_resources_are_opened_once_before_the_first_claim_and_closed_at_the_end(app):
    class Database:
        pass

    events = []

    @app.resource
    async def database() -> AsyncIterator[Database]:
        events.append("opened")
        yield Database()
        events.append("closed")

    @app.job
    async def use(database: Database = provided()) -> None:
        assert isinstance(database, Database)
        events.append("used")

    async with working(app):
        for _ in range(2):
            await use.result(await use.enqueue(), timeout=SOON_S)
    assert events == ["opened", "used", "used", "closed"]


async def test_a_resource_that_cannot_be_opened_ends_the_worker_before_it_claims(app):
    class Database:
        pass

    @app.resource
    async def database() -> Database:
        raise OSError("no route to the database")

    @app.job
    async def use(database: Database = provided()) -> None: ...

    async with app:
        job = await use.enqueue()
        with pytest.raises(OSError, match="no route"):
            await Worker(app).run()
        assert (await (await app.opened()).find(job)).status is JobStatus.QUEUED


async def test_middleware_and_callbacks_see_every_job(app):
    seen = []

    @app.around_run
    async def outer(running, run):
        seen.append(("in", running.job.entrypoint))
        try:
            return await run()
        finally:
            seen.append(("out", running.job.entrypoint))

    @app.on("claimed")
    def claimed(event):
        seen.append((event.name, event.job.entrypoint))

    @app.on("completed")
    async def completed(event):
        seen.append((event.name, event.outcome.result))
        raise RuntimeError("a callback harms nobody")

    @app.on("failed")
    async def failed(event):
        seen.append((event.name, event.outcome.error))

    @app.job
    async def good() -> int:
        return 7

    @app.job(max_attempts=1)
    def bad() -> None:
        raise ValueError("no")

    async with working(app):
        await good.result(await good.enqueue(), timeout=SOON_S)
        await reason(bad, await bad.enqueue())
    assert seen == [
        *[("claimed", "good"), ("in", "good"), ("out", "good"), ("completed", b"7")],
        *[("claimed", "bad"), ("in", "bad"), ("out", "bad"), ("failed", "ValueError: no")],
    ]


async def test_schedules_are_made_when_it_starts(app):
    ticked = asyncio.Event()

    @app.job(every=1)
    async def tick() -> None:
        ticked.set()

    @app.job(cron="0 3 * * *", tz="Europe/Vienna")
    async def clean_up() -> None: ...

    async with working(app):
        async with asyncio.timeout(SOON_S):
            await ticked.wait()
        found = {one.name: one for one in await (await app.opened()).schedules()}
        assert found["tick"].every_s == 1
        assert found["clean_up"].next_at > datetime.now(UTC)


async def test_an_outage_of_the_storage_loses_no_outcome_and_runs_nothing_twice(app, caplog):
    runs, go = [], asyncio.Event()

    @app.job(max_attempts=1)
    async def work(n: int) -> int:
        runs.append(n)
        await go.wait()
        if n == 1:
            raise ValueError("one")
        return n

    async with working(app, concurrency=3) as worker:
        queue = await app.opened()
        jobs = [await work.enqueue(n) for n in range(3)]
        await until(lambda: worker.counts[0] == 3)
        write, read = queue.storage.write, queue.storage.read

        async def fail(*args, **kwargs):
            raise StorageError("the bucket is gone")

        queue.storage.write = queue.storage.read = fail
        go.set()
        await until(lambda: "could not be settled" in caplog.text)
        assert "claims" not in caplog.text
        queue.storage.write, queue.storage.read = write, read
        assert await work.result(jobs[0], timeout=SOON_S) == 0
        assert await reason(work, jobs[1]) == "ValueError: one"
        assert await work.result(jobs[2], timeout=SOON_S) == 2
    assert sorted(runs) == [0, 1, 2]


async def test_claims_of_finished_jobs_are_kept_until_they_are_settled(app):
    runs = []

    @app.job
    async def work() -> int:
        runs.append(1)
        return len(runs)

    async with working(app) as worker:
        queue = await app.opened()
        await until(lambda: worker.trouble is None)

        async def fail(*args, **kwargs):
            raise StorageError("no acks today")

        ack_many, queue.ack_many = queue.ack_many, fail
        job = await work.enqueue()
        await until(lambda: runs)
        await asyncio.sleep(3 * queue.settings.stale_after_s)
        queue.ack_many = ack_many
        assert await work.result(job, timeout=SOON_S) == 1
    assert runs == [1]


async def test_it_is_ready_while_claims_are_answered(app, monkeypatch):
    monkeypatch.setattr("bucketq.app.worker.claiming._TROUBLE_AFTER_S", 0.2)

    @app.job
    async def work() -> None: ...

    async with working(app, concurrency=1) as worker:
        assert worker.trouble == "starting"
        queue = await app.opened()
        await until(lambda: worker.trouble is None)

        async def fail(*args, **kwargs):
            raise StorageError("the bucket is gone")

        dequeue, queue.dequeue = queue.dequeue, fail
        await work.enqueue()
        await until(lambda: "the bucket is gone" in (worker.trouble or ""))
        queue.dequeue = dequeue
        await until(lambda: worker.trouble is None)
        worker.stop()
        assert worker.trouble == "stopping"


async def test_while_outcomes_cannot_be_settled_no_more_are_piled_up(app):
    runs = []

    @app.job
    async def work() -> None:
        runs.append(1)

    async with working(app, concurrency=2) as worker:
        queue = await app.opened()
        await until(lambda: worker.trouble is None)

        async def fail(*args, **kwargs):
            raise StorageError("no acks today")

        ack_many, queue.ack_many = queue.ack_many, fail
        ids = await work.enqueue_many({} for _ in range(50))
        await until(lambda: len(runs) >= 8)
        await asyncio.sleep(0.3)
        assert len(runs) <= 10
        queue.ack_many = ack_many
        await queue.result(ids[-1], timeout=SOON_S)
        assert len(runs) == 50


async def test_a_worker_whose_options_make_no_sense_says_so(app):
    with pytest.raises(ConfigurationError, match="no handlers"):
        Worker(app)

    @app.job
    async def work() -> None: ...

    with pytest.raises(ConfigurationError, match="at least 1"):
        Worker(app, concurrency=0)
    with pytest.raises(ConfigurationError, match="grace"):
        Worker(app, grace_s=-1)
    with pytest.raises(ConfigurationError, match="no handler for mail; it has work"):
        Worker(app, entrypoints=["mail"])
    with pytest.raises(ConfigurationError, match="1 to 1000 entrypoints, not of 0"):
        Worker(app, entrypoints=[])
    for number in range(1000):
        app.job(name=f"work {number}")(work.function)
    with pytest.raises(ConfigurationError, match="1 to 1000 entrypoints, not of 1001"):
        Worker(app)


async def test_cancelling_run_gives_its_jobs_back(app):
    @app.job
    async def endless() -> None:
        await asyncio.sleep(60)

    async with app:
        job = await endless.enqueue()
        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.counts[0] == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await (await app.opened()).find(job)).status is JobStatus.QUEUED


async def test_no_line_is_logged_for_a_job_that_is_done(app, caplog):
    caplog.set_level(logging.INFO, "bucketq")

    @app.job
    async def work() -> None: ...

    async with working(app):
        job = await work.enqueue()
        await work.result(job, timeout=SOON_S)
        assert job.id not in caplog.text
