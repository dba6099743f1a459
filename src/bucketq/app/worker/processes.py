"""ProcessPool: plain functions that run in processes of their own, one job at a time in each.

    worker ── thread ══ pipe ══ child      a job goes in; reports and what it logs come out, then how it ended
                                  └─ watches its parent, and ends with it, however that ends

A child is kept for the next job. It is killed when its job has to stop, and another one is started
when it is needed.
"""

import asyncio
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn, Self

import msgspec

from bucketq.app.app import App
from bucketq.app.arguments import encode_result
from bucketq.app.call import Call
from bucketq.app.injection import bind, open_for
from bucketq.app.resources import Resources
from bucketq.app.running import Report, Running, running_as
from bucketq.app.worker.child_log import send_log, worker_level, write_down
from bucketq.app.worker.threads import Threads
from bucketq.errors import ProcessDiedError
from bucketq.failure import Elsewhere, spelt, trace_text
from bucketq.job import Job
from bucketq.trace_context import TraceContext
from bucketq.tracing.export import exported_traces, is_exporting
from bucketq.tracing.switch import TRACING

_SPAWN = multiprocessing.get_context("spawn")
# The worker decides what becomes of its children.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLOSE_S = 5.0


class ProcessPool:
    """As many children as jobs run in them at the same time. `async with` ends them.

    Raises ConfigurationError if children could not import the app.
    """

    def __init__(self, app: App) -> None:
        assert app.path
        self._app = app
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._threads = Threads(on_return=lambda: None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for child in self._busy:
            child.kill()
        closing = [asyncio.wrap_future(self._threads.submit(child.close)) for child in self._idle]
        self._idle = []
        await asyncio.gather(*closing)
        self._threads.shutdown()

    async def run(self, running: Running) -> Any:
        """Run the handler of a job in a child; return its result, or raise what it raised.

        Cancelling this kills the child. Raises ProcessDiedError if it died by itself.
        """
        loop = asyncio.get_running_loop()

        def report(progress: float | None, note: str | None) -> None:
            loop.call_soon_threadsafe(running.report, progress, note)

        child = self._take()
        here = TRACING.spans.current() if TRACING.spans is not None else TraceContext()
        ended = self._threads.submit(child.run, _Order(running.job, here), report)
        ended.add_done_callback(partial(self._return, loop, child))
        try:
            ending = await asyncio.wrap_future(ended)
        except asyncio.CancelledError:
            child.kill()
            raise
        if isinstance(ending, _Raised):
            raise ending.exception()
        running.enqueue(*ending.calls)
        return msgspec.json.decode(ending.result) if ending.result else None

    def kill(self) -> None:
        """End every child at once."""
        for child in (*self._idle, *self._busy):
            child.kill()

    def _take(self) -> "_Child":
        # One may have died while it was idle.
        self._idle = [child for child in self._idle if child.is_alive]
        child = self._idle.pop() if self._idle else _Child(self._app)
        self._busy.add(child)
        return child

    def _return(self, loop: asyncio.AbstractEventLoop, child: "_Child", ended: "Future[Any]") -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody needs it
            loop.call_soon_threadsafe(self._put_back, child)

    def _put_back(self, child: "_Child") -> None:
        self._busy.discard(child)
        if child.is_alive:
            self._idle.append(child)


class _Order(NamedTuple):
    job: Job
    # The span of the attempt.
    trace: TraceContext


class _Returned(NamedTuple):
    result: bytes
    calls: tuple[Call, ...]


class _Raised(NamedTuple):
    # Not every exception can be pickled, nor made anew of what was.
    pickled: bytes
    name: str
    text: str
    trace: str

    def exception(self) -> BaseException:
        error: BaseException = type(self.name, (Exception,), {})(self.text)
        with suppress(Exception):
            original = pickle.loads(self.pickled)
            if isinstance(original, Exception | SystemExit):
                error = original
        error.__cause__ = Elsewhere(self.trace)
        return error


class _Child:
    """One process, as its parent sees it. `run` and `close` block, and are called in threads."""

    def __init__(self, app: App) -> None:
        self._pipe, self._theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(app, self._theirs, is_exporting(), worker_level()), name="bucketq job"
        )
        self._is_killed = False

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and self._process.is_alive()

    def run(self, order: "_Order", report: Report) -> _Returned | _Raised:
        if self._process.pid is None:
            self._start()
        try:
            self._pipe.send(order)
            while True:
                said = self._pipe.recv()
                if isinstance(said, _Returned | _Raised):
                    return said
                if isinstance(said, logging.LogRecord):
                    write_down(said)
                else:
                    report(*said)
        except (EOFError, OSError) as error:
            self._process.join()
            raise ProcessDiedError(
                f"its process died with exit code {self._process.exitcode}; was it killed, or out of memory?"
            ) from error

    def kill(self) -> None:
        # In this order: whoever starts it meanwhile looks after it.
        self._is_killed = True
        if self._process.pid is not None:
            self._process.kill()

    def close(self) -> None:
        self._pipe.close()
        self._process.join(_CLOSE_S)
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        resource_tracker.ensure_running()
        # Inherited by the child: Ctrl-C in a terminal must not meet it before it is prepared.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._process.start()
        self._theirs.close()
        if self._is_killed:
            self._process.kill()


def _serve(app: App, pipe: Connection, exports_traces: bool, log_level: int) -> None:
    """Run jobs until the pipe is closed: what a child does."""
    for number in _SIGNALS:
        # Not SIG_IGN: programs that a handler starts would inherit it.
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    speaking = threading.Lock()

    def say(said: object) -> None:
        with speaking:
            pipe.send(said)

    send_log(say, log_level)
    with asyncio.Runner() as runner, exported_traces() if exports_traces else nullcontext():
        resources = Resources(app.providers)
        try:
            while True:
                say(_attempt(app, pipe.recv(), say, resources, runner))
        except (EOFError, OSError):
            return
        finally:
            runner.run(resources.__aexit__(None, None, None))


def _end_with_parent() -> NoReturn:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _going_on(trace: TraceContext) -> AbstractContextManager[None]:
    return nullcontext() if TRACING.spans is None else TRACING.spans.going_on(trace)


def _attempt(
    app: App, order: _Order, say: Callable[[object], None], resources: Resources, runner: asyncio.Runner
) -> _Returned | _Raised:
    job = order.job
    handler = app.handlers[job.entrypoint]
    running = Running(job, lambda progress, note: say((progress, note)))
    try:
        runner.run(open_for(handler, resources))
        run = bind(handler, running, resources)
        with running_as(running), _going_on(order.trace):
            result = run()
        return _Returned(encode_result(result), tuple(running.calls))
    except BaseException as error:
        pickled = b""
        with suppress(Exception):
            pickled = pickle.dumps(error)
        return _Raised(pickled, type(error).__name__, spelt(error), trace_text(error) or "")
