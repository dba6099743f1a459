"""bucketq.testing: an app in memory, for the tests of those who use bucketq."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from bucketq import App, ConfigurationError, Event, JobFailedError, Running, provided
from bucketq.app import Completed, Failed, Rejected
from bucketq.retry import fixed
from bucketq.testing import testing

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def new_app() -> tuple[App, Any]:
    """An app whose own queue nobody may touch, and its handlers."""
    app, outbox = App("file:///dev/null/queue.json"), list[str]()

    @app.job(retry=fixed(60))
    async def send(to: str, urgent: bool = False) -> str:
        if to == "nobody":
            raise ConnectionError("no answer")
        outbox.append(to)
        return f"sent to {to}"

    @app.job
    def resize(image: str) -> None:
        outbox.append(f"resized {image}")

    @app.job
    async def welcome(names: list[str], running: Running = provided()) -> None:
        running.enqueue(*(send.call(name) for name in names))

    return app, SimpleNamespace(outbox=outbox, send=send, resize=resize, welcome=welcome)


async def test_the_apps_own_queue_is_left_alone() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.send.enqueue("alice")
        assert (await jobs.queue.stats()).queued == 1
    async with testing(app) as jobs:
        assert (await jobs.queue.stats()).enqueued_total == 0


async def test_what_was_enqueued_is_asserted_by_its_arguments() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.send.enqueue("alice", urgent=True)
        job = await handlers.send.using(delay=60).enqueue(to="bob")

        assert jobs.assert_enqueued(handlers.send, to="bob").id == job.id
        jobs.assert_enqueued(handlers.send, to="alice", urgent=True)
        jobs.assert_enqueued(handlers.send, urgent=False)
        jobs.assert_not_enqueued(handlers.send, to="carol")
        jobs.assert_not_enqueued(handlers.resize)
        assert [job.json()["to"] for job in jobs.enqueued(handlers.send)] == ["alice", "bob"]


async def test_a_failed_assertion_lists_what_was_enqueued() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        with pytest.raises(
            AssertionError, match=r"^resize\(\) was enqueued 0 times, not once. Nothing was.$"
        ):
            jobs.assert_enqueued(handlers.resize)
        await handlers.send.enqueue("alice")
        await handlers.send.enqueue("bob", urgent=True)
        await jobs.queue.enqueue("elsewhere", b"x")
        await jobs.queue.enqueue("send", {"to": 7})
        listed = (
            "These were:\n  send(to='alice', urgent=False)\n  send(to='bob', urgent=True)\n"
            "  elsewhere(payload=b'x')\n  send(payload=b'{\"to\":7}')"
        )
        with pytest.raises(AssertionError) as missing:
            jobs.assert_enqueued(handlers.send, to="carol")
        assert str(missing.value) == f"send(to='carol') was enqueued 0 times, not once. {listed}"
        with pytest.raises(AssertionError) as doubled:
            jobs.assert_enqueued(handlers.send)
        assert str(doubled.value) == f"send() was enqueued 3 times, not once. {listed}"
        with pytest.raises(AssertionError) as unwanted:
            jobs.assert_not_enqueued(handlers.send, urgent=True)
        assert str(unwanted.value) == f"send(urgent=True) was enqueued. {listed}"
        with pytest.raises(TypeError, match="send has no argument too"):
            jobs.assert_not_enqueued(handlers.send, too="alice")
        with pytest.raises(TypeError, match="welcome has no argument running"):
            jobs.enqueued(handlers.welcome, running=None)


async def test_every_way_to_enqueue_is_seen() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.send.enqueue("one")
        await asyncio.to_thread(handlers.send.enqueue_sync, "two")
        await handlers.send.enqueue_many([{"to": "three"}, {"to": "four"}])
        await app.enqueue(handlers.send.call("five"), handlers.resize.call("cat"))
        await (await app.opened()).enqueue_batch("send", [{"to": "six"}], then=("resize", {"image": "dog"}))
        await handlers.send.enqueue_many({"to": "many"} for _ in range(3000))
        await handlers.resize.enqueue("x" * 100_000)
        names = [job.json()["to"] for job in jobs.enqueued(handlers.send)]
        assert (names[:6], len(names)) == (["one", "two", "three", "four", "five", "six"], 3006)
        jobs.assert_enqueued(handlers.resize, image="x" * 100_000)


async def test_a_job_whose_key_is_taken_was_not_enqueued() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.send.using(key="alice").enqueue("alice")
        await handlers.send.using(key="alice").enqueue("alice again")
        await app.enqueue(handlers.send.using(key="alice").call("and again"), handlers.resize.call("cat"))
        jobs.assert_enqueued(handlers.send)
        jobs.assert_enqueued(handlers.resize)


async def test_drain_runs_what_is_due_and_what_that_enqueues() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.welcome.enqueue(["alice", "bob"])
        await handlers.send.using(delay=60).enqueue("later")
        ran = await jobs.drain()
        assert [(one.job.entrypoint, one.outcome) for one in ran] == [
            ("welcome", Completed(b"", ran[0].outcome.calls)),
            ("send", Completed(b'"sent to alice"')),
            ("send", Completed(b'"sent to bob"')),
        ]
        assert handlers.outbox == ["alice", "bob"]
        jobs.assert_enqueued(handlers.send, to="alice")
        assert await handlers.send.result(ran[1].job) == "sent to alice"
        assert await jobs.drain() == []


async def test_an_error_of_a_handler_is_raised_as_it_is() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        job = await handlers.send.enqueue("nobody")
        await handlers.send.enqueue("alice")
        with pytest.raises(ConnectionError, match="no answer"):
            await jobs.drain()
        failed = await jobs.queue.find(job)
        assert failed is not None
        assert (failed.status, failed.error) == ("scheduled", "ConnectionError: no answer")
        await jobs.drain()
        assert handlers.outbox == ["alice"]


async def test_errors_may_be_outcomes_and_retries_come_with_time() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        job = await handlers.send.enqueue("nobody")
        [first] = await jobs.drain(raise_errors=False)
        assert isinstance(first.outcome, Failed)
        assert (first.outcome.error, first.outcome.retry_in_s) == ("ConnectionError: no answer", 60)
        assert await jobs.advance(seconds=59, raise_errors=False) == []
        assert len(await jobs.advance(seconds=1, raise_errors=False)) == 1
        assert [one.job.attempts for one in await jobs.advance(hours=1, raise_errors=False)] == [3]
        dead = await jobs.queue.find(job)
        assert dead is not None
        assert dead.status == "dead"


async def test_a_job_that_fails_without_an_exception() -> None:
    app, _ = new_app()
    async with testing(app) as jobs:
        await jobs.queue.enqueue("send", {"to": 7})
        with pytest.raises(JobFailedError, match=r"do not fit .*send\(to, urgent\): Expected `str`"):
            await jobs.drain()
        await jobs.queue.enqueue("send", {"to": 7})
        [ran] = await jobs.drain(raise_errors=False)
        assert isinstance(ran.outcome, Rejected)


async def test_jobs_that_nobody_handles_are_left() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await jobs.queue.enqueue("elsewhere")
        await handlers.send.enqueue("alice")
        assert len(await jobs.drain()) == 1
        assert (await jobs.queue.stats()).queued == 1


async def test_advance_goes_from_one_moment_to_the_next() -> None:
    app, _ = new_app()
    seen: list[tuple[str, datetime]] = []
    async with testing(app, now=MIDNIGHT) as jobs:

        @app.job(cron="0 * * * *")
        async def every_hour() -> None:
            seen.append(("hourly", jobs.clock.now()))

        @app.job
        async def once() -> None:
            seen.append(("once", jobs.clock.now()))
            await once.using(delay=timedelta(minutes=50)).enqueue()

        await once.using(run_at=MIDNIGHT + timedelta(minutes=30)).enqueue()
        await jobs.advance(hours=2, minutes=20)
        at = [(name, (moment - MIDNIGHT) / timedelta(minutes=1)) for name, moment in seen]
        assert at == [("once", 30), ("hourly", 60), ("once", 80), ("hourly", 120), ("once", 130)]
        assert jobs.clock.now() == MIDNIGHT + timedelta(hours=2, minutes=20)


async def test_ticks_are_jobs_that_were_enqueued_until_the_schedule_is_ended() -> None:
    app = App("memory://")

    @app.job(every=60)
    async def poll() -> None: ...

    async with testing(app) as jobs:
        await jobs.advance(minutes=2)
        assert len(jobs.enqueued(poll)) == 2
        await jobs.queue.unschedule("poll")
        assert await jobs.advance(minutes=2) == []


def test_the_clock_wants_a_time_zone() -> None:
    with pytest.raises(ConfigurationError, match="with its time zone"):
        testing(App("memory://"), now=MIDNIGHT.replace(tzinfo=None))


async def test_schedules_made_by_the_code_under_test() -> None:
    app, handlers = new_app()
    async with testing(app, now=MIDNIGHT) as jobs:
        await handlers.send.schedule("daily", {"to": "boss"}, cron="30 9 * * *", tz="Europe/Vienna")
        await jobs.advance(days=2)
        assert handlers.outbox == ["boss", "boss"]


async def test_a_rate_is_kept_by_the_clock() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await jobs.queue.limit("send", rate=1 / 60, burst=1)
        await handlers.send.enqueue_many({"to": str(n)} for n in range(3))
        assert len(await jobs.drain()) == 1
        assert len(await jobs.drain()) == 0
        assert len(await jobs.advance(minutes=1)) == 1
        await handlers.send.enqueue_many({"to": str(n)} for n in range(3))
        assert len(await jobs.advance(minutes=3)) == 3


async def test_jobs_expire_and_claims_go_stale_by_the_clock() -> None:
    app, handlers = new_app()
    async with testing(app) as jobs:
        await handlers.send.using(expires_in=60, delay=30).enqueue("late")
        await jobs.queue.pause("send")
        await jobs.advance(minutes=2)
        await jobs.queue.resume("send")
        await handlers.send.enqueue("alice")
        [claimed] = await jobs.queue.dequeue("send")
        assert claimed.json() == {"to": "alice"}
        [ran] = await jobs.advance(minutes=6)
        assert (ran.job.id, ran.job.crashes, handlers.outbox) == (claimed.id, 1, ["alice"])


async def test_inline_runs_each_job_at_once() -> None:
    app, handlers = new_app()
    async with testing(app, inline=True) as jobs:
        job = await handlers.send.enqueue("alice")
        assert handlers.outbox == ["alice"]
        assert await handlers.send.result(job) == "sent to alice"
        await handlers.welcome.enqueue(["bob", "carol"])
        assert handlers.outbox == ["alice", "bob", "carol"]
        await handlers.send.using(delay=60).enqueue("later")
        assert handlers.outbox[3:] == []
        await jobs.advance(minutes=1)
        assert handlers.outbox[3:] == ["later"]
        with pytest.raises(ConnectionError, match="no answer"):
            await handlers.send.enqueue("nobody")


async def test_inline_a_handler_may_wait_for_what_it_enqueues() -> None:
    app, handlers = new_app()

    @app.job
    async def ask(name: str) -> str:
        return await handlers.send.result(await handlers.send.enqueue(name))

    @app.job
    def ask_in_thread(name: str) -> str:
        return app.run_sync(handlers.send.result(handlers.send.enqueue_sync(name)))

    async with testing(app, inline=True):
        assert await ask.result(await ask.enqueue("alice")) == "sent to alice"
        assert await ask.result(await ask_in_thread.enqueue("bob")) == "sent to bob"


async def test_inline_a_long_chain_does_not_nest() -> None:
    app = App("memory://")

    @app.job
    async def count_down(n: int, running: Running = provided()) -> None:
        if n:
            running.enqueue(count_down.call(n - 1))

    async with testing(app, inline=True) as jobs:
        await count_down.enqueue(500)
        assert len(jobs.enqueued(count_down)) == 501


async def test_jobs_that_never_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory://")
    monkeypatch.setattr("bucketq.testing.app._JOBS_MAX", 20)

    @app.job
    async def again(running: Running = provided()) -> None:
        running.enqueue(again.call())

    @app.job
    async def once() -> None: ...

    async with testing(app) as jobs:
        await once.enqueue_many({} for _ in range(20))
        assert len(await jobs.drain()) == 20
        await again.enqueue()
        with pytest.raises(RuntimeError, match="20 jobs have run"):
            await jobs.drain()


async def test_middleware_callbacks_and_resources_are_those_of_a_worker() -> None:
    app, heard = App("memory://"), []

    class Database: ...

    class Unused: ...

    @app.resource
    async def database() -> AsyncIterator[Database]:
        heard.append("open")
        yield Database()
        heard.append("close")

    @app.resource
    async def unused() -> Unused:
        raise AssertionError("no job that runs here needs it")

    @app.around_run
    async def around(running: Running, run: Any) -> Any:
        heard.append("before")
        try:
            return await run()
        finally:
            heard.append("after")

    for name in ("claimed", "completed", "failed"):

        @app.on(name)
        def hear(event: Event) -> None:
            heard.append(event.name)

    @app.job
    async def charge(fails: bool, database: Database = provided()) -> None:
        heard.append("run")
        if fails:
            raise ValueError

    @app.job
    async def other(unused: Unused = provided()) -> None: ...

    async with testing(app) as jobs:
        await app.enqueue(charge.call(False), charge.call(True))
        await jobs.drain(raise_errors=False)
    one = ["claimed", "before", "run", "after"]
    assert heard == ["claimed", "open", *one[1:], "completed", *one, "failed", "close"]
    assert app.run_middleware == [around]


async def test_resources_may_be_replaced() -> None:
    app = App("memory://")

    class Database:
        name = "real"

    class Fake(Database):
        name = "fake"

    class Session:
        def __init__(self, database: Database) -> None:
            self.database = database

    @app.resource
    def database() -> Database:
        raise AssertionError("no real database in a test")

    @app.resource
    def session(database: Database) -> Session:
        return Session(database)

    @app.job
    async def ask(database: Database, session: Session = provided()) -> list[str]:
        return [database.name, session.database.name]

    async with testing(app, inline=True, resources={Database: Fake()}):
        assert await ask.result(await ask.enqueue()) == ["fake", "fake"]
    assert app.providers.of(Database) is database


def test_without_async() -> None:
    app, handlers = new_app()
    threads = []

    @app.job
    def where() -> None:
        threads.append(threading.current_thread())

    with testing(app, now=MIDNIGHT) as jobs:
        handlers.send.enqueue_sync("alice")
        handlers.send.using(delay=60).enqueue_sync("bob")
        where.enqueue_sync()
        jobs.assert_enqueued(handlers.send, to="alice")
        assert len(jobs.drain_sync()) == 2
        assert len(jobs.advance_sync(minutes=1)) == 1
        assert app.run_sync(jobs.queue.stats()).completed_total == 3
    assert handlers.outbox == ["alice", "bob"]
    assert threads != [threading.main_thread()]


def test_without_async_and_inline() -> None:
    app, handlers = new_app()
    with testing(app, inline=True):
        handlers.send.enqueue_sync("alice")
        assert handlers.outbox == ["alice"]
        with pytest.raises(ConnectionError):
            handlers.send.enqueue_sync("nobody")


def test_an_error_in_the_block_leaves_the_app_as_it_was() -> None:
    app, handlers = new_app()
    connect = app._connect
    with pytest.raises(ZeroDivisionError), testing(app):
        handlers.send.enqueue_sync("alice")
        raise ZeroDivisionError
    assert (app._connect, app.run_middleware, app._background) == (connect, [], None)
