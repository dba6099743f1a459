"""What handlers and callbacks may do to a worker: a job always ends, and its slot is free again."""

import asyncio
from datetime import UTC, datetime

import pytest

from bucketq import App, ClaimLostError, JobStatus, Settings
from bucketq.app.worker import Worker
from bucketq.retry import fixed
from tests.app.test_worker import SOON_S, reason, until, working


class Panic(BaseException):
    """As extensions in Rust raise it."""


@pytest.fixture
def app():
    return App("memory://", settings=Settings(stale_after_s=0.9, retry_for_s=0.2))


async def test_whatever_a_handler_raises_its_job_has_failed(app):
    @app.job(max_attempts=1)
    async def panicking() -> None:
        raise Panic("index out of bounds")

    @app.job(max_attempts=1)
    def panicking_in_thread() -> None:
        raise Panic("index out of bounds")

    @app.job(max_attempts=1)
    def first_of_none() -> None:
        next(iter([]))

    async with working(app, concurrency=1, grace_s=0):
        for handler in (panicking, panicking_in_thread):
            assert await reason(handler, await handler.enqueue()) == "Panic: index out of bounds"
        assert "StopIteration" in await reason(first_of_none, await first_of_none.enqueue())


async def test_a_callback_that_cancels_itself_harms_nobody(app, caplog):
    @app.on("claimed")
    @app.on("completed")
    async def give_in(event):
        raise asyncio.CancelledError

    @app.job
    async def work() -> int:
        return 1

    async with working(app, concurrency=1, grace_s=0) as worker:
        assert await work.result(await work.enqueue(), timeout=SOON_S) == 1
        await until(lambda: worker.counts == (0, 1, 0))
    assert "a callback for completed" in caplog.text


async def test_callbacks_of_a_failure_are_not_cut_short_by_the_next_attempt(app):
    told, attempts, again = [], [], asyncio.Event()

    @app.on("failed")
    async def tell(event):
        await again.wait()
        told.append(event.job.attempts)

    @app.job(max_attempts=2, retry=fixed(0))
    async def work() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            again.set()
        raise ValueError("no")

    async with working(app, concurrency=3):
        await work.enqueue()
        assert sorted(await until(lambda: len(told) == 2 and told)) == [1, 2]


async def test_what_a_handler_raises_when_it_is_stopped_costs_no_attempt(app):
    failed = []
    app.on("failed")(failed.append)

    @app.job(max_attempts=1)
    async def fragile() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RuntimeError("the connection was closed") from None

    async with app:
        worker = Worker(app, grace_s=0)
        running = asyncio.create_task(worker.run())
        job = await fragile.enqueue()
        await until(lambda: worker.counts[0] == 1)
        worker.stop()
        await running
        found = await (await app.opened()).find(job)
        assert (found.status, found.attempts) == (JobStatus.QUEUED, 0)
    assert not failed


async def test_a_late_answer_about_an_old_claim_does_not_stop_the_new_one(app):
    go, asked, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    attempts = []

    @app.job(retry=fixed(0))
    async def work() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            await asked.wait()
            raise ValueError("not yet")
        await go.wait()
        return len(attempts)

    async with working(app):
        queue = await app.opened()
        heartbeat_many = queue.heartbeat_many

        async def answer_late(jobs, progress):
            if asked.is_set():
                answered.set()
                return await heartbeat_many(jobs, progress)
            asked.set()
            [job] = jobs
            await until(lambda: len(attempts) == 2)
            return [ClaimLostError(job.id, "it was given back")]

        queue.heartbeat_many = answer_late
        job = await work.enqueue()
        async with asyncio.timeout(SOON_S):
            await answered.wait()
        go.set()
        assert await work.result(job, timeout=SOON_S) == 2


async def test_a_timeout_is_a_failure_like_others_for_the_policy(app, caplog):
    @app.job(timeout=2, retry=fixed(60))
    async def slow() -> None:
        await asyncio.sleep(60)

    async with working(app) as worker:
        job = await slow.enqueue()
        await until(lambda: worker.counts == (0, 0, 1))
        queue = await app.opened()
        while (found := await queue.find(job)).status is JobStatus.IN_PROGRESS:
            await asyncio.sleep(0.01)
        assert found.error == "timed out after 2 s"
        assert (found.run_at - datetime.now(UTC)).total_seconds() > 30
    assert "dropped" not in caplog.text
