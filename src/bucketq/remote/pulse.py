"""Pulse: whether the broker still lives whose answer takes so long.

A connection may be open for ever to a machine that is gone, or to a process that stands still.
While calls take long, the pulse is felt now and then; when there is none, they are ended.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bucketq.remote.brokers import UnreachableError

_FEEL_EVERY_S = 5.0
_ANSWER_WITHIN_S = 5.0


class Pulse:
    """One broker's. `ping` is something that a living one answers at once."""

    def __init__(self, ping: Callable[[], Awaitable[None]]) -> None:
        self._ping = ping
        self._calls: set[asyncio.Timeout] = set()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def felt(self) -> AsyncIterator[None]:
        """Feel the pulse while the block runs. Raises UnreachableError when there is none."""
        call = asyncio.timeout(None)
        try:
            async with call:
                self._calls.add(call)
                if self._task is None:
                    self._task = asyncio.create_task(self._feel(), name="bucketq pulse")
                try:
                    yield
                finally:
                    self._calls.discard(call)
        except TimeoutError as error:
            if not call.expired():
                raise  # the block's own
            raise UnreachableError("the broker stands still, or is cut off", was_sent=True) from error

    def stop(self) -> None:
        """Feel no more."""
        if self._task is not None:
            self._task.cancel()

    async def _feel(self) -> None:
        while self._calls:
            before = set(self._calls)
            await asyncio.sleep(_FEEL_EVERY_S)
            if not before & self._calls:
                continue
            try:
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    await self._ping()
            except Exception:
                for call in before & self._calls:
                    call.reschedule(asyncio.get_running_loop().time())
        self._task = None
