"""Admission: how much may be read into memory at a time, first come, first served."""

import asyncio
from collections import deque


class Admission:
    """Admits readers as long as what they hold fits into a number of bytes, and one in any case."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._holders = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.bytes_held = 0

    async def enter(self, size: int) -> None:
        """Wait until there is room for this many bytes. Call `leave` with the same number later."""
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, admitted))
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.leave(size)
            else:
                # The next one may be small enough.
                self._admit()
            raise

    def leave(self, size: int) -> None:
        """Make room again."""
        self._holders -= 1
        self.bytes_held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, admitted = self._waiting[0]
            if not admitted.done():
                if self._holders and self.bytes_held + size > self._bytes_max:
                    return
                self._holders += 1
                self.bytes_held += size
                admitted.set_result(None)
            self._waiting.popleft()
