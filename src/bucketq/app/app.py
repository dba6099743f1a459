"""App: where a program says which functions are jobs, and in which queue they stand."""

import asyncio
import atexit
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from bucketq.app.call import Call
from bucketq.app.events import Callback, Callbacks, EventName
from bucketq.app.handler import Handler, Missed, RunsIn, Ticks
from bucketq.app.middleware import AroundEnqueue, AroundRun, Enqueue, wrap_enqueue
from bucketq.app.resources import Providers
from bucketq.duration import Duration
from bucketq.embedded import BrokerQueue, DirectQueue
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.loop_thread import LoopThread
from bucketq.new_job import JobOptions, new_job
from bucketq.remote.queue import RemoteQueue
from bucketq.retry import RetryPolicy, check_policy, exponential
from bucketq.schedule import new_schedule
from bucketq.settings import Settings
from bucketq.tls import Tls
from bucketq.transaction import Transaction
from bucketq.url import connect

log = logging.getLogger("bucketq")

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# A DirectQueue only where one stands for the app's own.
AppQueue = BrokerQueue | RemoteQueue | DirectQueue
OpenQueue = Callable[[], AppQueue]


class MakesHandler(Protocol):
    """What `app.job(...)` gives: a decorator."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Handler[P, R]: ...


class App:
    """Functions as jobs of one queue.

        app = App("file:///var/lib/myapp/queue.json")

        @app.job(max_attempts=5, timeout=30)
        async def send_email(to: str) -> None: ...

        await send_email.enqueue(to="alice@example.com")

    `bucketq work module:app` runs them, or `app.run()`. The URL and the options are those of
    `bucketq.connect`. The queue is opened when it is first needed, once for each event loop; `async with app`
    closes it in order at the end.
    """

    def __init__(
        self,
        url: str,
        *,
        via: Literal["broker"] | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        storage_options: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.url = url
        self.settings = settings
        self.providers = Providers()
        self.callbacks = Callbacks()
        self.handlers: dict[str, Handler[..., Any]] = {}
        self.run_middleware: list[AroundRun] = []
        self._enqueue_middleware: list[AroundEnqueue] = []
        self._connect: OpenQueue = lambda: connect(
            self.url, via=via, token=token, tls=tls, storage_options=storage_options, settings=self.settings
        )
        self._queues: dict[asyncio.AbstractEventLoop, asyncio.Task[AppQueue]] = {}
        self._background: LoopThread | None = None
        self._lock = threading.Lock()

    @overload
    def job(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Handler[P, R]: ...
    @overload
    def job(
        self,
        /,
        *,
        name: str | None = None,
        runs_in: RunsIn | None = None,
        retry: RetryPolicy | None = None,
        priority: int = 0,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        missed: Missed = "last",
        **options: Unpack[JobOptions],
    ) -> MakesHandler: ...
    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        runs_in: RunsIn | None = None,
        retry: RetryPolicy | None = None,
        priority: int = 0,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        missed: Missed = "last",
        **options: Unpack[JobOptions],
    ) -> Any:
        """Make a function a handler; its name is the entrypoint, unless `name` says another.

            @app.job(max_attempts=5, timeout=30, retry=exponential(first_s=10))
            async def send_email(to: str) -> None: ...

            @app.job(runs_in="process")
            def resize(image: str, width: int = 200) -> str: ...

            @app.job(cron="0 3 * * *", tz="Europe/Vienna")
            async def clean_up() -> None: ...

        Async functions run in the worker's event loop, others in a thread or, if asked for, in a process
        of their own. What fails is tried again after a growing while, or as `retry` says. The
        other options are those of `Queue.enqueue`. With `cron` or `every`, each worker that starts
        makes sure of the schedule.
        """
        ticks = Ticks(cron, every, tz, missed) if cron is not None or every is not None else None

        def handle(function: Callable[..., Any]) -> Handler[..., Any]:
            return self._add(
                Handler(
                    self,
                    function,
                    name or function.__name__,
                    _place(function, runs_in),
                    retry or exponential(),
                    priority,
                    options,
                    ticks,
                )
            )

        return handle if function is None else handle(function)

    def resource(self, provider: F) -> F:
        """Let a function provide the type that it returns or yields; see `bucketq.app.resources`."""
        self.providers.add(provider)
        return provider

    def around_enqueue(self, middleware: AroundEnqueue) -> AroundEnqueue:
        """Put an async function `(call, enqueue)` around every enqueue; the first one is the outermost.

        Not around `Running.enqueue`; see `bucketq.app.middleware`.
        """
        self._enqueue_middleware.append(middleware)
        return middleware

    def around_run(self, middleware: AroundRun) -> AroundRun:
        """Put an async function `(running, run)` around every attempt; the first one is the outermost."""
        self.run_middleware.append(middleware)
        return middleware

    def on(self, name: EventName) -> Callable[[Callback], Callback]:
        """Call a function, async or not, with each `Event` of this name.

        @app.on("failed")
        def tell(event):
            print(event.job.id, event.outcome.error)
        """

        def add(callback: Callback) -> Callback:
            self.callbacks.add(name, callback)
            return callback

        return add

    async def enqueue(self, *calls: Call) -> list[Job]:
        """Enqueue calls, of any handlers, in one commit or not at all; return their jobs.

        await app.enqueue(fetch.call(url), notify.call("begun"))
        """
        queue = await self.opened()
        if len(calls) == 1:
            return [await self._through_middleware(partial(_enqueue, queue))(calls[0])]
        async with queue.transaction() as transaction:
            enqueue = self._through_middleware(partial(_add, transaction))
            return [await enqueue(call) for call in calls]

    def enqueue_sync(self, *calls: Call) -> list[Job]:
        """`enqueue` for code without async; the queue stays open, in a thread, until the program ends."""
        return self.run_sync(self.enqueue(*calls))

    def run_sync(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine that uses the app, for code without async; return what it returns.

        receipt = app.run_sync(charge.result(job, timeout=60))
        """
        return self._in_background().run(work)

    async def enqueue_many(self, handler: Handler[..., Any], calls: Iterable[Call]) -> Sequence[str]:
        """Enqueue any number of calls of one handler in one commit; return the jobs' ids."""
        if self._enqueue_middleware:
            return [job.id for job in await self.enqueue(*calls)]
        queue = await self.opened()
        payloads = (call.payload for call in calls)
        return await queue.enqueue_many(handler.entrypoint, payloads, handler.priority, **handler.options)

    async def opened(self) -> AppQueue:
        """The queue, open in this event loop."""
        loop = asyncio.get_running_loop()
        opening = self._queues.get(loop)
        if opening is None:
            # In place, since other threads may be opening theirs.
            for over in [other for other in list(self._queues) if other.is_closed()]:
                self._queues.pop(over, None)
            opening = self._queues[loop] = loop.create_task(self._open(), name="bucketq open")
        return await asyncio.shield(opening)

    async def close(self, within_s: float | None = None) -> None:
        """Close the queue in this event loop, after what was begun is committed, if that is so in time."""
        opening = self._queues.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            try:
                async with asyncio.timeout(within_s):
                    await (await opening).__aexit__(None, None, None)
            except TimeoutError:
                log.error("the queue does not answer: claims that it still holds end by the stale timeout")

    async def __aenter__(self) -> Self:
        await self.opened()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def run(
        self, *, concurrency: int = 20, entrypoints: Iterable[str] | None = None, grace_s: float = 30.0
    ) -> None:
        """Run jobs in this process until SIGTERM or SIGINT, as `bucketq work` does.

            if __name__ == "__main__":
                app.run(concurrency=50)

        Raises what a resource raises that cannot be opened, and ConfigurationError.
        """
        # A worker knows its app; only this one method goes the other way.
        from bucketq.app.worker import Worker

        asyncio.run(Worker(self, concurrency=concurrency, entrypoints=entrypoints, grace_s=grace_s).serve())

    @contextmanager
    def connected_by(self, open_queue: OpenQueue) -> Iterator[None]:
        """Let other queues stand for the app's own inside the block, as tests do."""
        before = self._connect, self._queues, self._background
        self._connect, self._queues, self._background = open_queue, {}, None
        try:
            yield
        finally:
            self._stop_background()
            self._connect, self._queues, self._background = before

    @property
    def path(self) -> str:
        """Where the app can be imported from, such as "myapp.jobs:app". Raises ConfigurationError."""
        places = [
            f"{module_name}:{name}"
            for module_name, module in list(sys.modules.items())
            for name, value in list(getattr(module, "__dict__", {}).items())
            if value is self
        ]
        # Rather the module that has the handlers than one that imports the app from there; and one that was
        # started as a program has another name elsewhere.
        homes = {handler.function.__module__ for handler in self.handlers.values()}
        places.sort(key=lambda place: (place.startswith("__"), place.partition(":")[0] not in homes))
        if not places:
            raise ConfigurationError("other processes cannot find the app: give it a name in a module")
        return places[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return load_app, (self.path, self.url)

    def __getstate__(self) -> dict[str, Any]:
        """What makes up the app, without what is open in this process; for those who cannot import it."""
        of_this_process = ("_queues", "_background", "_lock")
        return {name: value for name, value in vars(self).items() if name not in of_this_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _queues={}, _background=None, _lock=threading.Lock())

    def _add(self, handler: Handler[..., Any]) -> Handler[..., Any]:
        _check(handler)
        if handler.entrypoint in self.handlers:
            raise ConfigurationError(f"there are two handlers for {handler.entrypoint!r}; give one a name=")
        self.handlers[handler.entrypoint] = handler
        return handler

    def _through_middleware(self, enqueue: Enqueue) -> Enqueue:
        return wrap_enqueue(self._enqueue_middleware, enqueue)

    async def _open(self) -> AppQueue:
        try:
            return await self._connect().__aenter__()
        except BaseException:
            # The next one who needs it tries again.
            self._queues.pop(asyncio.get_running_loop(), None)
            raise

    def _in_background(self) -> LoopThread:
        with self._lock:
            if self._background is None or not self._background.is_alive:
                self._background = LoopThread()
                # Once, however many there are in turn: a test has one of its own.
                atexit.unregister(self._stop_background)
                atexit.register(self._stop_background)
            return self._background

    def _stop_background(self) -> None:
        with self._lock:
            background, self._background = self._background, None
        if background is not None and background.is_alive:
            background.run(self.close())
            background.stop()


def load_app(path: str, url: str | None = None) -> App:
    """Import an app by its path, such as "myapp.jobs:app", if need be for the queue at another URL.

    Raises ConfigurationError.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"an app is named as module:name, such as myapp.jobs:app, not {path!r}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"there is no module {module_name}; is it installed, or in this folder?"
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, App):
        what = "not there" if found is None else f"no App but a {type(found).__name__}"
        raise ConfigurationError(f"{path} is {what}")
    if url is not None:
        found.url = url
    return found


async def _enqueue(queue: AppQueue, call: Call) -> Job:
    return await queue.enqueue(call.entrypoint, call.payload, call.priority, **call.options)


async def _add(transaction: Transaction, call: Call) -> Job:
    return transaction.enqueue(call.entrypoint, call.payload, call.priority, **call.options)


def _check(handler: Handler[..., Any]) -> None:
    """Raise ConfigurationError for options that no job could have."""
    name, options = handler.entrypoint, handler.options
    job = new_job(name, name, b"", handler.priority, datetime.now(UTC), options)
    check_policy(handler.retry)
    if ticks := handler.ticks:
        new_schedule(name, job, options, **ticks._asdict())


def _place(function: Callable[..., Any], runs_in: RunsIn | None) -> RunsIn:
    is_async = inspect.iscoroutinefunction(function)
    if runs_in is None:
        return "loop" if is_async else "thread"
    if runs_in not in ("loop", "thread", "process"):
        raise ConfigurationError(f"runs_in is 'loop', 'thread' or 'process', not {runs_in!r}")
    if is_async is not (runs_in == "loop"):
        kind = "an async" if is_async else "a plain"
        raise ConfigurationError(f"{function.__name__}() is {kind} function, and cannot run in a {runs_in}")
    return runs_in
