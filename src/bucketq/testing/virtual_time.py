"""Virtual time: an event loop in which sleeping costs nothing.

Time stands still while anything can run and jumps to the next timer when nothing can, so
an outage of ten minutes is tested in a millisecond. For code whose only waiting is
asyncio's own: threads and sockets live in real time.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps over every wait."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass, as a stop-the-world pause would."""
        self._now_s += seconds


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = "\n".join(repr(task) for task in asyncio.all_tasks(self._loop))
            raise RuntimeError(f"deadlock: nothing can run and no timer is set\n{waiting}")
        ready = super().select(0)
        if not ready:
            self._loop.advance(timeout)
        return ready


class VirtualClock:
    """A Clock on the running loop's virtual time; `skew` makes its time of day wrong."""

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        self.skew = skew

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic_s()) + self.skew

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
