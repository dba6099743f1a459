"""Attempts: trying a job, wherever that is: in a worker, on a Spark executor, in a test.

payload ──▶ arguments ──▶ middleware ──▶ the function ──▶ Completed
   │                                        └─ raised, or too slow ──▶ Failed, or Rejected
   └ does not fit ──▶ Rejected: no other attempt would help
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, Self

from bucketq.app.app import App
from bucketq.app.arguments import UnfitResultError, encode_result
from bucketq.app.events import is_being_cancelled
from bucketq.app.handler import Handler
from bucketq.app.injection import bind, open_for
from bucketq.app.middleware import wrap_run
from bucketq.app.outcome import Completed, Failed, Outcome, Rejected
from bucketq.app.resources import Resources
from bucketq.app.running import Report, Running, running_as
from bucketq.duration import seconds_of
from bucketq.errors import ConfigurationError, PayloadError
from bucketq.expiry import timed_out
from bucketq.failure import error_text, trace_text
from bucketq.job import Job
from bucketq.retry import Failure, GiveUp, Retry, decide, exponential
from bucketq.tracing.switch import TRACING

log = logging.getLogger("bucketq")

_AHEAD_S_MAX = 0.5
_AHEAD_SHARE = 0.1


class Processes(Protocol):
    """Where handlers run that want a process of their own; a worker has a `ProcessPool`."""

    async def run(self, running: Running) -> Any:
        """Run the handler of a job there; return its result, or raise what it raised."""
        ...


class Attempts:
    """Tries the jobs of an app. `async with` opens the resources that its handlers need, and closes them.

    With `opens_early=False` each is opened when a job first needs it.
    """

    def __init__(
        self,
        app: App,
        entrypoints: Iterable[str] | None = None,
        *,
        threads: Executor | None = None,
        processes: Processes | None = None,
        opens_early: bool = True,
    ) -> None:
        # Whether plain functions run in the event loop too: the way to a thread and back takes longer
        # than a quick one does.
        self.in_place = False
        self._app = app
        self._handlers = handlers_of(app, entrypoints)
        self._threads = threads
        self._processes = processes
        self._resources = Resources(app.providers)
        self._opens_early = opens_early

    async def __aenter__(self) -> Self:
        await self._resources.__aenter__()
        try:
            for handler in self._handlers.values() if self._opens_early else ():
                await self._open_for(handler)
        except BaseException:
            await self._resources.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._resources.__aexit__(*exc)

    async def attempt(self, job: Job, report: Report | None = None) -> Outcome:
        """Try a claimed job once. Cancelling this stops the handler, and tells nothing of the job."""
        if TRACING.spans is None:
            return await self._attempt(job, report)
        with TRACING.spans.attempt(job) as span:
            outcome = await self._attempt(job, report)
            error = outcome.error if isinstance(outcome, Failed | Rejected) else None
            span.end(type(outcome).__name__.lower(), error)
            return outcome

    async def _attempt(self, job: Job, report: Report | None) -> Outcome:
        handler = self._handlers[job.entrypoint]
        running = Running(job, report)
        if not self._opens_early:
            await self._open_for(handler)
        with running_as(running):
            try:
                run = self._prepared(handler, running)
            except PayloadError as error:
                return Rejected(error_text(error) or "")
            try:
                if job.timeout_s:
                    async with asyncio.timeout(_limit_s(job)) as limit:
                        result = await run()
                else:
                    result = await run()
                return Completed(encode_result(result), tuple(running.calls))
            except UnfitResultError as error:
                return Rejected(str(error))
            except TimeoutError as error:
                if job.timeout_s and limit.expired():
                    return self._failed(handler, job, error, timed_out(job))
                return self._failed(handler, job, error)
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                # The handler cancelled itself, or awaited something that was.
                return self._failed(handler, job, error)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                # SystemExit too, and what extensions raise that panic: a job that fails has to end.
                return self._failed(handler, job, error)

    async def _open_for(self, handler: Handler[..., Any]) -> None:
        if handler.runs_in != "process" or self._processes is None:
            await open_for(handler, self._resources)

    def _prepared(self, handler: Handler[..., Any], running: Running) -> Callable[[], Awaitable[Any]]:
        if handler.runs_in == "process" and self._processes is not None:
            # To find a misfit here, and not in another process.
            handler.arguments.decode(running.job.payload)
            run: Callable[[], Awaitable[Any]] = partial(self._processes.run, running)
        else:
            run = bind(handler, running, self._resources)
            if handler.runs_in != "loop":
                run = partial(self._in_place if self.in_place else self._in_thread, run)
        return wrap_run(self._app.run_middleware, running, run) if self._app.run_middleware else run

    async def _in_place(self, run: Callable[[], Any]) -> Any:
        return run()

    async def _in_thread(self, run: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, copy_context().run, _call, run)

    def _failed(
        self, handler: Handler[..., Any], job: Job, error: BaseException, text: str | None = None
    ) -> Failed | Rejected:
        text = text or error_text(error) or ""
        if TRACING.spans is not None:
            TRACING.spans.record(error)
        failure = Failure(job, job.failures, text, error, random.random())
        try:
            decision = decide(handler.retry, failure)
            if isinstance(decision, Retry):
                seconds_of(decision.after_s, "the policy's delay")
        except Exception:
            log.exception("the retry policy of %s failed; going by the usual one", handler.entrypoint)
            decision = exponential()(failure)
        match decision:
            case Retry(after_s):
                return Failed(text, trace_text(error), after_s)
            case GiveUp():
                return Rejected(text, trace_text(error))


def handlers_of(app: App, entrypoints: Iterable[str] | None) -> dict[str, Handler[..., Any]]:
    """The handlers for these entrypoints, or all. Raises ConfigurationError if there is none for one."""
    if not app.handlers:
        raise ConfigurationError("the app has no handlers; decorate a function with @app.job")
    wanted = list(app.handlers if entrypoints is None else entrypoints)
    if missing := [name for name in wanted if name not in app.handlers]:
        raise ConfigurationError(
            f"the app has no handler for {', '.join(missing)}; it has {', '.join(app.handlers)}"
        )
    return {name: app.handlers[name] for name in wanted}


def _call(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except StopIteration as error:
        # As in a coroutine. No future can hold a StopIteration: whoever awaits it would wait for ever.
        raise RuntimeError("function raised StopIteration") from error


def _limit_s(job: Job) -> float:
    # A little less than the job allows: when its time is over, the queue itself ends the attempt, and
    # knows nothing of the handler's retry policy.
    return job.timeout_s - min(_AHEAD_S_MAX, _AHEAD_SHARE * job.timeout_s)
