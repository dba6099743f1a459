"""Attempts: what the outcome of a try is, whatever a handler does."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pydantic
import pytest

from bucketq import App, ConfigurationError, Event, Handler, Job, JobStatus, Running, provided
from bucketq.app import Completed, Failed, Interrupted, Outcome, Rejected, current
from bucketq.app.attempt import Attempts
from bucketq.app.settling import settle
from bucketq.retry import Failure, GiveUp, Retry, fixed


@pytest.fixture
def app() -> App:
    return App("memory://")


@asynccontextmanager
async def working(app: App) -> AsyncIterator[Any]:
    async with app, Attempts(app) as attempts:

        async def attempt(handler: Handler[..., Any], *args: Any, **kwargs: Any) -> Outcome:
            await handler.enqueue(*args, **kwargs)
            [job] = await (await app.opened()).dequeue(handler.entrypoint)
            return await attempts.attempt(job)

        yield attempt


async def try_once(app: App, handler: Handler[..., Any], *args: Any, **kwargs: Any) -> Any:
    async with working(app) as attempt:
        return await attempt(handler, *args, **kwargs)


class Invoice(pydantic.BaseModel):
    total: int


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (None, b""),
        ({"a": (1, 2)}, b'{"a":[1,2]}'),
        (Invoice(total=3), b'{"total":3}'),
        ([Invoice(total=3)], b'[{"total":3}]'),
    ],
)
async def test_what_a_handler_returns_is_its_result(app: App, result: Any, stored: bytes) -> None:
    @app.job
    async def answer() -> Any:
        return result

    @app.job
    def plain_answer() -> Any:
        return result

    assert await try_once(app, answer) == Completed(stored)
    assert await try_once(app, plain_answer) == Completed(stored)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (object(), "it ran, but the result is not JSON"),
        ("x" * 70_000, "it ran, but the result has 70002 bytes"),
    ],
)
async def test_a_result_that_cannot_be_stored_is_rejected(app: App, result: Any, reason: str) -> None:
    @app.job
    async def answer() -> Any:
        return result

    outcome = await try_once(app, answer)
    assert isinstance(outcome, Rejected)
    assert outcome.error.startswith(reason)


async def test_defaults_are_those_of_the_function(app: App) -> None:
    marker = object()

    @app.job
    async def look(value: Any = marker) -> bool:
        return value is marker

    assert await try_once(app, look) == Completed(b"true")
    assert await try_once(app, look, None) == Completed(b"false")


async def test_an_error_is_told_with_its_type_and_place(app: App) -> None:
    @app.job(retry=fixed(7))
    async def fail() -> None:
        raise ValueError("no such image")

    @app.job(retry=fixed(7))
    def fail_in_thread() -> None:
        raise ValueError("no such image")

    for handler in (fail, fail_in_thread):
        outcome = await try_once(app, handler)
        assert isinstance(outcome, Failed)
        assert (outcome.error, outcome.retry_in_s) == ("ValueError: no such image", 7)
        assert f"in {handler.entrypoint}: raise ValueError" in (outcome.trace or "")


async def test_the_pause_after_a_failure_grows_by_default(app: App) -> None:
    @app.job
    async def fail() -> None:
        raise ValueError

    async with app, Attempts(app) as attempts:
        queue = await app.opened()
        await fail.enqueue()
        pauses = []
        for _ in range(2):
            [job] = await queue.dequeue("fail")
            outcome = await attempts.attempt(job)
            assert isinstance(outcome, Failed)
            pauses.append(outcome.retry_in_s)
            await queue.nack(job)
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2


async def test_a_policy_decides_by_the_exception(app: App, caplog: pytest.LogCaptureFixture) -> None:
    def by_kind(failure: Failure) -> Any:
        match failure.exception:
            case LookupError():
                return GiveUp()
            case ValueError():
                return Retry(60)
        raise RuntimeError("a policy with a bug")

    @app.job(retry=by_kind)
    async def fail(kind: str) -> None:
        raise {"lookup": LookupError, "value": ValueError, "other": OSError}[kind]("sorry")

    async with working(app) as attempt:
        assert (await attempt(fail, "lookup"))[:1] == ("LookupError: sorry",)
        assert isinstance(await attempt(fail, "lookup"), Rejected)
        assert (await attempt(fail, "value")).retry_in_s == 60
        outcome = await attempt(fail, "other")
    assert isinstance(outcome, Failed)
    assert "OSError: sorry" in outcome.error
    assert "the retry policy of fail failed" in caplog.text


async def test_a_handler_that_takes_too_long_is_stopped(app: App) -> None:
    stopped = []

    @app.job(timeout=0.05)
    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)

    outcome = await try_once(app, sleep)
    assert isinstance(outcome, Failed)
    assert (outcome.error, stopped) == ("timed out after 0.05 s", [True])


async def test_a_timeout_of_the_handlers_own_is_an_error_like_others(app: App) -> None:
    @app.job(timeout=30)
    async def impatient() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    outcome = await try_once(app, impatient)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("TimeoutError")


async def test_a_handler_that_exits_fails_only_its_job(app: App) -> None:
    @app.job
    async def leave() -> None:
        raise SystemExit(3)

    assert (await try_once(app, leave)).error == "SystemExit: 3"


async def test_plain_functions_run_in_threads_and_the_loop_goes_on(app: App) -> None:
    has_begun, loop_goes_on = threading.Event(), threading.Event()

    @app.job
    def block() -> bool:
        has_begun.set()
        assert loop_goes_on.wait(10)
        return threading.current_thread() is threading.main_thread()

    async with working(app) as attempt:
        task = asyncio.create_task(attempt(block))
        while not has_begun.is_set():
            await asyncio.sleep(0.001)
        loop_goes_on.set()
    assert await task == Completed(b"false")


async def test_current_and_running_are_the_same_also_in_threads(app: App) -> None:
    @app.job
    async def in_loop(running: Running = provided()) -> list[Any]:
        return [current() is running, running.attempt, running.job.entrypoint]

    @app.job
    def in_thread(running: Running = provided()) -> list[Any]:
        return [current() is running, running.attempt, running.job.entrypoint]

    assert await try_once(app, in_loop) == Completed(b'[true,1,"in_loop"]')
    assert await try_once(app, in_thread) == Completed(b'[true,1,"in_thread"]')
    with pytest.raises(ConfigurationError, match="no job runs here"):
        current()


async def test_reports_are_checked_and_passed_on(app: App) -> None:
    reports = []

    @app.job
    async def count(running: Running = provided()) -> None:
        running.report(0.5, "half")
        running.report(note="more")

    @app.job
    async def wrong(running: Running = provided()) -> None:
        running.report(7)

    async with app, Attempts(app) as attempts:
        queue = await app.opened()
        await app.enqueue(count.call(), wrong.call())
        [first] = await queue.dequeue("count")
        await attempts.attempt(first, lambda progress, note: reports.append((progress, note)))
        [second] = await queue.dequeue("wrong")
        assert "progress" in (await attempts.attempt(second)).error
    assert reports == [(0.5, "half"), (None, "more")]


async def test_what_a_handler_enqueues_lands_with_its_completion(app: App) -> None:
    @app.job
    async def child(n: int) -> None: ...

    @app.job
    async def parent(fails: bool, running: Running = provided()) -> str:
        running.enqueue(child.call(1), child.using(priority=-1).call(2))
        if fails:
            raise ValueError("after all")
        return "done"

    async with app, Attempts(app) as attempts:
        queue = await app.opened()
        for fails, children in ((True, 0), (False, 2)):
            before = (await queue.read_state()).version
            job = await parent.enqueue(fails)
            [claimed] = await queue.dequeue("parent")
            await settle(queue, claimed, await attempts.attempt(claimed))
            assert (await queue.read_state()).version == before + 3
            assert len((await queue.read_state()).queued_jobs("child")) == children
        assert await parent.result(job) == "done"


async def test_every_outcome_is_settled(app: App) -> None:
    @app.job
    async def some() -> None: ...

    async def settled(outcome: Outcome) -> Job | None:
        await some.enqueue()
        [job] = await queue.dequeue("some")
        await settle(queue, job, outcome)
        found = await queue.find(job)
        if found is not None:
            await (queue.discard if found.status is JobStatus.DEAD else queue.cancel)(job)
        return found

    async with app:
        queue = await app.opened()
        assert await settled(Completed(b"1")) is None
        failed = await settled(Failed("sorry", "here", 60))
        assert failed is not None
        assert (failed.status, failed.error, failed.history[0].trace) == ("scheduled", "sorry", "here")
        assert failed.run_at is not None
        dead = await settled(Rejected("never", "there"))
        assert dead is not None
        assert (dead.status, dead.attempts, dead.history[0].trace) == ("dead", 1, "there")
        released = await settled(Interrupted())
        assert released is not None
        assert (released.status, released.failures) == ("queued", 0)


async def test_middleware_around_run_is_outermost_first(app: App) -> None:
    order: list[Any] = []

    @app.around_run
    async def outer(running: Running, run: Any) -> Any:
        order.append(("in", running.job.entrypoint))
        try:
            return [await run()]
        finally:
            order.append("out")

    @app.around_run
    async def inner(running: Running, run: Any) -> Any:
        order.append("inner")
        return await run()

    @app.job
    async def greet(name: str) -> str:
        order.append("run")
        return name

    @app.job
    def fail() -> None:
        raise ValueError("sorry")

    async with working(app) as attempt:
        assert await attempt(greet, "alice") == Completed(b'["alice"]')
        assert order == [("in", "greet"), "inner", "run", "out"]
        assert (await attempt(fail)).error == "ValueError: sorry"


async def test_middleware_may_handle_an_error_or_not_run_at_all(app: App) -> None:
    @app.around_run
    async def guard(running: Running, run: Any) -> Any:
        if running.job.tenant == "blocked":
            return "skipped"
        try:
            return await run()
        except LookupError:
            return "nothing there"

    @app.job
    async def find() -> None:
        raise LookupError

    async with working(app) as attempt:
        assert await attempt(find) == Completed(b'"nothing there"')
        assert await attempt(find.using(tenant="blocked")) == Completed(b'"skipped"')


async def test_callbacks_hear_of_events_in_order_and_harm_nobody(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    @app.on("failed")
    def broken(event: Event) -> None:
        raise RuntimeError("a callback with a bug")

    @app.on("failed")
    async def later(event: Event) -> None:
        await asyncio.sleep(0)
        heard.append(f"{event.name} {event.job.entrypoint}: {event.outcome.error}")

    @app.job
    async def fail() -> None: ...

    async with app:
        job = await fail.enqueue()
    with caplog.at_level(logging.ERROR, "bucketq"):
        await app.callbacks.tell_ended(job, Failed("sorry"))
        await app.callbacks.tell_ended(job, Completed())
    assert heard == ["failed fail: sorry"]
    assert f"a callback for failed of job {job.id} failed" in caplog.text


def test_an_unknown_event_is_refused(app: App) -> None:
    with pytest.raises(ConfigurationError, match="claimed, completed or failed, not 'finished'"):
        app.on("finished")(print)


async def test_attempts_are_for_handlers_that_exist(app: App) -> None:
    with pytest.raises(ConfigurationError, match=r"no handlers; decorate a function with @app\.job"):
        Attempts(app)
    app.job(name="send")(lambda: None)
    with pytest.raises(ConfigurationError, match="no handler for sned; it has send"):
        Attempts(app, ["sned"])
