"""Signals: the first SIGTERM or SIGINT lets a worker end in order, the second one ends it at once."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_by_signals(stop: Callable[[], None], abort: Callable[[], None] | None) -> Iterator[None]:
    """Call `stop`, in the event loop, at the first signal; at the second one `abort`, and exit.

    The exit code is then 128 and the signal's number. Without `abort`, later signals say nothing new. Outside
    of the main thread nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    is_told = False

    # Not the loop's own handlers: a handler that blocks the loop must not keep the second signal out.
    def tell(number: int, frame: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            if abort is None:
                return
            abort()
            os._exit(128 + number)
        is_told = True
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, tell) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def unless(event: asyncio.Event, work: Awaitable[T]) -> T | None:
    """What the work returns; None if the event comes before, and then the work is cancelled."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        working.cancel()
        await asyncio.wait([working, waiting])
    return None if working.cancelled() else working.result()
