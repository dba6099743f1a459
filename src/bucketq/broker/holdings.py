"""Holdings: one account of all bytes that a broker holds for its clients, requests and answers.

    HTTP, WebSocket ─ what has arrived, and what is written but not sent ─▶ ┐
    gRPC ─ a message until it is answered, an object that is arriving ────▶ ├─ Holdings
    any call ─ its answer, from before it is read until it is sent ───────▶ ┘

A request that does not fit is refused. An answer that does not fit waits until others have been sent, but
not for long: the connections of clients that do not read are ended. See docs/decisions/0020.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from bucketq.broker.allowance import Allowance
from bucketq.errors import TooManyRequestsError
from bucketq.storage.port import BEFORE_READING

T = TypeVar("T")

# There is always room for so much of one connection, so that a few large answers keep no small one out.
SMALL_BYTES = 64 * 1024
# Less than a call takes anyway.
TINY_BYTES = 4 * 1024


class Holdings:
    """How many bytes are held, by connection, and the answers that wait for room."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self._bytes_max = allowance.held_bytes_max
        self._of: dict[Hashable, int] = {}
        # By connection: those whose clients do not read are passed over at once, however many they are.
        self._waiting: dict[Hashable, dict[asyncio.Future[None], int]] = {}
        # Whether one of them waits for others' room, so that nothing may pass it.
        self._is_full = False
        self.bytes_held = 0

    def count(self, owner: Hashable, size: int) -> bool:
        """Count bytes of a connection, or, below 0, release them. Return whether there was room."""
        self.bytes_held += size
        mine = self._of.pop(owner, 0) + size
        if mine:
            self._of[owner] = mine
        if size < 0:
            self._admit()
        return mine <= SMALL_BYTES or self.bytes_held <= self._bytes_max

    def has_room(self, owner: Hashable, size: int) -> bool:
        """Whether an answer of this size fits."""
        is_free = not self._is_full and self._fits(size) and self._is_fair(owner, size)
        return is_free or self._is_small(owner, size)

    async def enter(self, owner: Hashable, size: int) -> None:
        """Count an answer as soon as there is room for it. Raises TimeoutError if there is none in time."""
        if self._is_small(owner, size):
            self.count(owner, size)
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, {})[admitted] = size
        self._admit()
        try:
            async with asyncio.timeout(self.allowance.body_within_s):
                await admitted
        except BaseException:
            mine = self._waiting.get(owner, {})
            if mine.pop(admitted, None) is None:
                self.count(owner, -size)
            else:
                if not mine:
                    del self._waiting[owner]
                # The next one may be small enough.
                self._admit()
            raise

    def _admit(self) -> None:
        self._is_full = False
        # One connection after the other, so that none waits for ever. Who does not read delays no one else.
        while (found := next(filter(self._is_next, self._waiting.items()), None)) is not None:
            owner, mine = found
            admitted, size = next(iter(mine.items()))
            if not self._fits(size):
                self._is_full = True
                return
            del mine[admitted], self._waiting[owner]
            if mine:
                self._waiting[owner] = mine
            self.count(owner, size)
            # A caller that was cancelled in this moment finds its future gone, and releases the bytes.
            if not admitted.done():
                admitted.set_result(None)

    def _is_next(self, waiting: tuple[Hashable, dict[asyncio.Future[None], int]]) -> bool:
        owner, mine = waiting
        return self._is_fair(owner, next(iter(mine.values())))

    def _is_small(self, owner: Hashable, size: int) -> bool:
        return size <= TINY_BYTES or self._of.get(owner, 0) + size <= SMALL_BYTES

    def _fits(self, size: int) -> bool:
        # An answer larger than half of the account waits until the other half is free.
        return self.bytes_held + min(size, self._bytes_max // 2) <= self._bytes_max

    def _is_fair(self, owner: Hashable, size: int) -> bool:
        # One answer of a connection that reads; of one that does not, none after the first quarter.
        mine = self._of.get(owner, 0)
        return mine <= SMALL_BYTES or mine + size <= self._bytes_max // 4


def arriving(owner: Hashable) -> Hashable:
    """A connection, as far as it sends: what it sends takes no room from its answers."""
    return "arriving", owner


class Hold:
    """What one call holds, from before its answer is read until that is sent. Close it in any case."""

    def __init__(self, holdings: Holdings, owner: Hashable) -> None:
        self._holdings = holdings
        self._owner = owner
        self._announced: set[str] = set()
        self._is_waiting = self._is_closed = False
        self.size = 0
        # A call has a task of its own.
        _HOLD.set(self)

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes fit."""
        return self._holdings.has_room(self._owner, size)

    def take(self, size: int) -> None:
        """Count bytes at once."""
        self.size += size
        self._holdings.count(self._owner, size)

    def check_begin(self) -> None:
        """Raise TooManyRequestsError if too much of the connection is unread already."""
        if not self._holdings.count(self._owner, 0):
            raise _no_room()

    async def grow(self, size: int) -> None:
        """Wait for room. Raises TooManyRequestsError."""
        # A call that held some bytes while it waited for more could wait for its like, and they for it.
        if not self.size and not self._is_waiting:
            self._is_waiting = True
            try:
                await self._holdings.enter(self._owner, size)
                self.size += size
            except TimeoutError:
                raise _no_room() from None
            finally:
                self._is_waiting = False
            if self._is_closed:
                self.close()
        elif self.has_room(size):
            self.take(size)
        else:
            raise _no_room()

    async def announce(self, name: str, size: int) -> None:
        """Wait for room for an object. Raises TooManyRequestsError."""
        # A read that fails is tried again.
        if name not in self._announced:
            await self.grow(size)
            self._announced.add(name)

    def close(self) -> None:
        """Release all bytes."""
        self._is_closed = True
        self._holdings.count(self._owner, -self.size)
        self.size = 0


_HOLD: ContextVar[Hold | None] = ContextVar("_HOLD", default=None)


def _no_room() -> TooManyRequestsError:
    return TooManyRequestsError(
        "the broker has no memory for this answer until its clients have read others. Ask again later;"
        " read the answers of this connection first, or raise --held-bytes-max"
    )


@contextmanager
def announced() -> Iterator[None]:
    """Have the present call wait for room for each object that the block reads for its answer.

    The block raises TooManyRequestsError if there is none.
    """
    hold = _HOLD.get()
    before = BEFORE_READING.set(hold.announce if hold is not None else None)
    try:
        yield
    finally:
        BEFORE_READING.reset(before)


async def answered(
    produce: Callable[[], Awaitable[T]], *, is_repeatable: bool, size_of: Callable[[Any], int] = len
) -> T:
    """Produce the present call's answer and count it. Raises TooManyRequestsError.

    One that finds no room, and may be produced twice, is dropped until there is room for its size.
    """
    hold = _HOLD.get()
    if hold is not None and not is_repeatable:
        hold.check_begin()
    told = await produce()
    if hold is not None:
        more = size_of(told) - hold.size
        # What was announced has room already, and is a little longer in JSON.
        if is_repeatable and more > hold.size and not hold.has_room(more):
            del told
            await hold.grow(more)
            told = await produce()
        hold.take(max(0, size_of(told) - hold.size))
    return told
