"""Virtual time: an event loop in which sleeping costs nothing and order is chosen by a seed.

Time stands still while anything can run and jumps to the next timer when nothing can, so
an outage of ten minutes is tested in a millisecond. With a seed, whatever is ready runs in
a random order that the seed repeats. For code whose only waiting is asyncio's own: threads
and sockets live in real time.

A `Process` is a group of tasks that dies as one, at once and without a word (`kill`), or
stands still and goes on later (`pause`, `resume`), as a real one under SIGKILL and SIGSTOP.
"""

import asyncio
import functools
import inspect
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_process: ContextVar["Process | None"] = ContextVar("process", default=None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps over every wait."""

    def __init__(self, seed: int | None = None) -> None:
        self._now_s = 0.0
        self._order = None if seed is None else random.Random(seed)
        self._ready: deque[asyncio.Handle]
        self._tasks: set[asyncio.Task[Any]] = set()
        super().__init__(_JumpingSelector(self))
        self.set_task_factory(self._create_and_keep)

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass, as a stop-the-world pause would."""
        self._now_s += seconds

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(*_in_its_process(callback, args, context), context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, *_in_its_process(callback, args, context), context=context)

    def _create_and_keep(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> "asyncio.Task[Any]":
        # asyncio keeps weak references only, and nothing else may know the tasks of the dead:
        # collecting one would run its cleanup.
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _run_once(self) -> None:
        if self._order is not None and len(self._ready) > 1:
            handles = list(self._ready)
            self._order.shuffle(handles)
            self._ready.clear()
            self._ready.extend(handles)
        super()._run_once()  # type: ignore[misc]


class Process:
    """Tasks that live and die together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], Context]] = []

    def start(self, main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a coroutine, and all the tasks that it starts, as this process."""
        context = copy_context()
        context.run(_process.set, self)
        return asyncio.get_running_loop().create_task(main, name=self.name, context=context)

    def kill(self) -> None:
        """Nothing of this process ever runs again; no cleanup, no last word."""
        self.is_alive = False

    def pause(self) -> None:
        """Nothing of this process runs until `resume`; its timers go on."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on with everything that came due during the pause."""
        self.is_paused = False
        self._release()

    def bury(self) -> None:
        """Let a dead process's tasks run again, so that their loop can be closed in order."""
        self.is_alive, self.is_paused = True, False
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        for callback, args, context in held:
            loop.call_soon(callback, *args, context=context)

    def _run(self, callback: Callable[..., object], *args: Any) -> None:
        if self.is_alive and not self.is_paused:
            callback(*args)
        else:
            self._held.append((callback, args, copy_context()))


def _in_its_process(
    callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
) -> tuple[Any, ...]:
    process = _process.get() if context is None else context.get(_process)
    return (callback, *args) if process is None else (process._run, callback, *args)


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = "\n".join(repr(task) for task in asyncio.all_tasks(self._loop))
            raise DeadlockError(f"nothing can run and no timer is set\n{waiting}")
        # The only file is the loop's own pipe, which wakes it for threads and signals.
        self._loop.advance(timeout)
        return []


class DeadlockError(RuntimeError):
    """Every task waits and nothing will ever wake one; the message lists them."""


class VirtualClock:
    """A Clock on the running loop's virtual time; `skew` makes its time of day wrong."""

    EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        self.skew = skew

    def now(self) -> datetime:
        return self.EPOCH + timedelta(seconds=self.monotonic_s()) + self.skew

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T], seed: int | None = None) -> T:
    """Like asyncio.run, in virtual time; a seed shuffles the order in which tasks run."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(main)


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Turn an `async def` test into a plain test that runs in virtual time.

    The signature stays the same, so fixtures and parameters work. An argument called `seed` is
    also the seed of the event loop. The test needs no pytest plugin.

    >>> @virtual_time
    ... async def test_an_hour_of_waiting():
    ...     await asyncio.sleep(3600)
    ...     assert asyncio.get_running_loop().time() == 3600
    >>> test_an_hour_of_waiting()
    """
    signature = inspect.signature(test)

    @functools.wraps(test)
    def in_virtual_time(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs), signature.bind(*args, **kwargs).arguments.get("seed"))

    return in_virtual_time
