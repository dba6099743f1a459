"""UnderWay: the batches that clients wait for, so that one that is sent again joins the work begun for it.

A client sends its batch again when it gets no answer in time, and its first call is cancelled then. If the
work began from the start each time, a batch that has to read much of the backlog would never be answered.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Longer than any pause of a client between two tries.
_SENT_AGAIN_WITHIN_S = 10.0
# What all batches without a caller may hold together; the oldest ends first.
_LEFT_MAX = 1000
_LEFT_BYTES_MAX = 64 * 1024 * 1024


class UnderWay(Generic[T]):
    """Work by the key of its batch. It goes on for a while when its caller has gone."""

    def __init__(self) -> None:
        self._works: dict[Hashable, _Work[T]] = {}
        # Those without a caller, the oldest first.
        self._left: dict[Hashable, asyncio.TimerHandle] = {}
        self._left_bytes = 0

    def __len__(self) -> int:
        return len(self._works)

    async def join(self, key: Hashable, size: int, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the outcome of the work with this key; begin it if it is not under way."""
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work(asyncio.create_task(begin(), name="bucketq batch"), size)
            work.task.add_done_callback(lambda task: self._ended(key, task))
        self._take_back(key)
        work.callers += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.callers -= 1
            if not work.callers and not work.task.done():
                self._leave(key, work)

    def _leave(self, key: Hashable, work: "_Work[T]") -> None:
        loop = asyncio.get_running_loop()
        self._left[key] = loop.call_later(_SENT_AGAIN_WITHIN_S, self._cancel, key)
        self._left_bytes += work.size
        while len(self._left) > _LEFT_MAX or self._left_bytes > _LEFT_BYTES_MAX:
            self._cancel(next(iter(self._left)))

    def _cancel(self, key: Hashable) -> None:
        self._take_back(key)
        # A batch that comes now begins again.
        self._works.pop(key).task.cancel()

    def _take_back(self, key: Hashable) -> None:
        if (timer := self._left.pop(key, None)) is not None:
            timer.cancel()
            self._left_bytes -= self._works[key].size

    def _ended(self, key: Hashable, task: "asyncio.Task[T]") -> None:
        if key in self._works and self._works[key].task is task:
            self._take_back(key)
            del self._works[key]
        if not task.cancelled():
            # Without a caller, no one else retrieves the error.
            task.exception()


class _Work(Generic[T]):
    def __init__(self, task: "asyncio.Task[T]", size: int) -> None:
        self.task = task
        self.size = size
        self.callers = 0
