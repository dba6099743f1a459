"""Rereading: what is read from the queue for one page is read again when the queue has changed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from nicegui import background_tasks, ui

from bucketq.dashboard.frame import Frame
from bucketq.errors import BucketQError
from bucketq.live.look import Look

T = TypeVar("T")

# Ten people who look at it must not keep the broker busy: what takes long is read less often.
_EVERY_S = 2.0
_REST = 50


class Rereading(Generic[T]):
    """Reads and shows, again and again. What fails is tried again: the banner tells why."""

    def __init__(self, frame: Frame, read: Callable[[], Awaitable[T]], show: Callable[[T], None]) -> None:
        self._frame = frame
        self._read = read
        self._show = show
        self._client = ui.context.client
        self._task: asyncio.Task[None] | None = None
        self._has_changed = False
        self._next_s = frame.watch.now_s + _EVERY_S
        frame.each_look(self._change)
        self._has_changed = False
        frame.each_second(self._tick)

    def soon(self) -> None:
        """Read with the next look: whoever has just done something wants to see it."""
        self._next_s = 0.0

    def _change(self, look: Look) -> None:
        self._has_changed = True

    def _tick(self) -> None:
        is_early = self._frame.watch.now_s < self._next_s
        if self._has_changed and not is_early and self._task is None:
            self._has_changed = False
            self._task = background_tasks.create(self._reread(), name="bucketq dashboard page")

    async def _reread(self) -> None:
        began_s = self._frame.watch.now_s
        try:
            found = await self._read()
            # Whoever wanted to see it may have gone meanwhile.
            if self._client.has_socket_connection:
                with self._client:
                    self._show(found)
        except (BucketQError, OSError):
            self._has_changed = True
        finally:
            ended_s = self._frame.watch.now_s
            self._next_s = ended_s + max(_EVERY_S, _REST * (ended_s - began_s))
            self._task = None
