"""testing(app): an app in memory, whose jobs run when a test says so, at the time that it says.

    async with testing(app) as jobs:
        await register("alice@example.com")                        # code under test, which enqueues
        jobs.assert_enqueued(send_email, to="alice@example.com")
        await jobs.drain()                                         # what is due runs, one after the other
        await jobs.advance(hours=1)                                # and what is due by then

It is a real queue, on `InMemoryStorage` and with a clock that stands still, so limits, keys, tenants,
schedules and retries are what they are elsewhere; and jobs run as in a worker, with its resources,
middleware and callbacks. Only `runs_in="process"` is a thread here.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any, NamedTuple, Self

from bucketq.app.app import App
from bucketq.app.attempt import Attempts
from bucketq.app.handler import Handler
from bucketq.app.middleware import Run
from bucketq.app.outcome import Failed, Outcome, Rejected
from bucketq.app.running import Running
from bucketq.app.settling import settle
from bucketq.errors import JobFailedError, PayloadError
from bucketq.job import Job
from bucketq.testing.still_clock import StillClock
from bucketq.testing.watched_queue import WatchedQueue

# More than this in one go, and they enqueue each other for ever.
_JOBS_MAX = 10_000

_is_settling: ContextVar[bool] = ContextVar("bucketq_is_settling", default=False)


class Ran(NamedTuple):
    """One attempt that was made, and how it ended."""

    job: Job
    outcome: Outcome


def testing(
    app: App,
    *,
    inline: bool = False,
    now: datetime | None = None,
    resources: Mapping[Any, Any] | None = None,
) -> "Jobs":
    """Let a queue in memory stand for the app's own inside the block, `with` or `async with`.

    With `inline`, each job runs as soon as it is enqueued. The clock stands at `now`, by default the time at
    which the block begins, and goes on only by `advance`. `resources` are given to handlers in place of the
    app's own, by their types: `{Database: FakeDatabase()}`.
    """
    return Jobs(app, inline, now or datetime.now(UTC), resources or {})


# It is no test, although pytest would think so by its name.
testing.__test__ = False  # type: ignore[attr-defined]


class Jobs:
    """What `testing(app)` gives: the jobs of the app, in the hands of a test. `queue` is their queue."""

    def __init__(self, app: App, inline: bool, now: datetime, resources: Mapping[Any, Any]) -> None:
        self.clock = StillClock(now)
        self.queue = WatchedQueue(self.clock, self._saw)
        self._app = app
        self._inline = inline
        self._resources = resources
        self._enqueued: dict[str, Job] = {}
        self._scheduled: set[str] = set()
        self._errors: dict[str, Exception] = {}
        self._block = ExitStack()

    def enqueued(self, handler: Handler[..., Any], /, **arguments: Any) -> list[Job]:
        """The jobs of a handler that were enqueued in this block, run or not, by some of their arguments.

        assert len(jobs.enqueued(send_email, urgent=True)) == 2
        """
        if unknown := arguments.keys() - _parameters(handler):
            raise TypeError(f"{handler.entrypoint} has no argument {', '.join(unknown)}")
        return [job for job in self._enqueued.values() if _fits(job, handler, arguments)]

    def assert_enqueued(self, handler: Handler[..., Any], /, **arguments: Any) -> Job:
        """Assert that one such job was enqueued, and only one; return it.

        job = jobs.assert_enqueued(remind, user=7)
        assert job.run_at == jobs.clock.now() + timedelta(hours=1)
        """
        __tracebackhide__ = True
        found = self.enqueued(handler, **arguments)
        if len(found) != 1:
            wanted = _call(handler.entrypoint, arguments)
            raise AssertionError(f"{wanted} was enqueued {len(found)} times, not once. {self._summary()}")
        return found[0]

    def assert_not_enqueued(self, handler: Handler[..., Any], /, **arguments: Any) -> None:
        """Assert that no such job was enqueued."""
        __tracebackhide__ = True
        if self.enqueued(handler, **arguments):
            raise AssertionError(f"{_call(handler.entrypoint, arguments)} was enqueued. {self._summary()}")

    async def drain(self, *, raise_errors: bool = True) -> list[Ran]:
        """Run the jobs that are due, and those that they enqueue; return what ran.

        The first error that a handler raises is raised here, once its job has failed as it would in a
        worker. With `raise_errors=False` errors are outcomes like others:

            [ran] = await jobs.drain(raise_errors=False)
            assert ran.outcome.error == "ConnectionError: no answer"

        Raises JobFailedError for a job that failed without: its payload does not fit, or it took too long.
        """
        ran: list[Ran] = []
        await self._make_schedules()
        async with Attempts(self._app, opens_early=False) as attempts:
            while claimed := await self.queue.dequeue([*self._app.handlers]):
                if len(ran) == _JOBS_MAX:
                    raise RuntimeError(f"{_JOBS_MAX} jobs have run, and there are more: do they never end?")
                ran.append(Ran(claimed[0], await self._run(attempts, claimed[0], raise_errors)))
        return ran

    async def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        raise_errors: bool = True,
    ) -> list[Ran]:
        """Let time pass, and run each job when it is due: scheduled ones, ticks of schedules, retries.

        await jobs.advance(hours=1, minutes=30)
        """
        until = self.clock.now() + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        ran = await self.drain(raise_errors=raise_errors)
        while (due := await self._next_due()) and due <= until:
            self.clock.move_to(due)
            ran += await self.drain(raise_errors=raise_errors)
        self.clock.move_to(until)
        return ran + await self.drain(raise_errors=raise_errors)

    def drain_sync(self, *, raise_errors: bool = True) -> list[Ran]:
        """`drain` for tests without async."""
        return self._app.run_sync(self.drain(raise_errors=raise_errors))

    def advance_sync(self, **options: Any) -> list[Ran]:
        """`advance` for tests without async."""
        return self._app.run_sync(self.advance(**options))

    def __enter__(self) -> Self:
        self._block.enter_context(self._app.connected_by(lambda: self.queue))
        self._block.enter_context(self._app.providers.replaced_by(self._resources))
        self._app.run_middleware.insert(0, self._keep_error)
        self._block.callback(self._app.run_middleware.remove, self._keep_error)
        return self

    def __exit__(self, *exc: object) -> None:
        self._block.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)

    async def _make_schedules(self) -> None:
        for name, handler in self._app.handlers.items():
            # Once: a test may have ended one.
            if name not in self._scheduled:
                self._scheduled.add(name)
                await handler.make_schedule()

    async def _run(self, attempts: Attempts, job: Job, raise_errors: bool) -> Outcome:
        self._enqueued.setdefault(job.id, job)
        await self._app.callbacks.tell_claimed(job)
        outcome = await attempts.attempt(job)
        with _settling():
            await settle(self.queue, job, outcome)
        await self._app.callbacks.tell_ended(job, outcome)
        error = self._errors.pop(job.id, None)
        if raise_errors and isinstance(outcome, Failed | Rejected):
            raise error or JobFailedError(job.id, outcome.error)
        return outcome

    async def _saw(self, jobs: list[Job]) -> None:
        self._enqueued.update((job.id, job) for job in jobs)
        # What a completed job enqueues runs after it, not within.
        if self._inline and not _is_settling.get():
            await self.drain()

    async def _keep_error(self, running: Running, run: Run) -> Any:
        """The outermost middleware: an outcome has only the text of an error."""
        try:
            return await run()
        except Exception as error:
            self._errors[running.job.id] = error
            raise

    async def _next_due(self) -> datetime | None:
        state, now = await self.queue.read_state(), self.clock.now()
        moments = (state.next_due(), state.next_refill(now))
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def _summary(self) -> str:
        if not self._enqueued:
            return "Nothing was."
        lines = [_told(job, self._app.handlers.get(job.entrypoint)) for job in self._enqueued.values()]
        return "\n  ".join(["These were:", *lines])


@contextmanager
def _settling() -> Iterator[None]:
    token = _is_settling.set(True)
    try:
        yield
    finally:
        _is_settling.reset(token)


def _fits(job: Job, handler: Handler[..., Any], arguments: dict[str, Any]) -> bool:
    if job.entrypoint != handler.entrypoint:
        return False
    try:
        found = _arguments(job, handler)
    except PayloadError:
        return not arguments
    return all(found[name] == value for name, value in arguments.items())


def _arguments(job: Job, handler: Handler[..., Any]) -> dict[str, Any]:
    """The arguments of a job, with the defaults of those that were left out. Raises PayloadError."""
    given = handler.arguments.decode(job.payload)
    return {name: given.get(name, default) for name, default in _parameters(handler).items()}


def _parameters(handler: Handler[..., Any]) -> dict[str, Any]:
    """The parameters that a payload may bring, and their defaults."""
    return {
        name: parameter.default
        for name, parameter in signature(handler.function).parameters.items()
        if name not in handler.arguments.injected
    }


def _told(job: Job, handler: Handler[..., Any] | None) -> str:
    try:
        return _call(job.entrypoint, _arguments(job, handler) if handler else {"payload": job.payload})
    except PayloadError:
        return _call(job.entrypoint, {"payload": job.payload})


def _call(entrypoint: str, arguments: dict[str, Any]) -> str:
    return f"{entrypoint}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
