"""Deadline: each call has one, from its submission to its answer: it queues, and is tried, within it.

    submitted ──▶ queues ──▶ a try ──▶ another try … ──▶ the answer
        └───────────────── limit_s ─────────────────┴──▶ an error, with the real time

Callers share a batch. Each gets the error when its own time is up. The work for the batch ends with the last.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from bucketq.clock import Clock
from bucketq.errors import CASConflictError, StorageError, UnusableStorageError
from bucketq.pending import Pending, ignore

T = TypeVar("T")

# A healthy storage, or broker, answers within this time: one request gets it, however short the limit is.
ANSWER_S = 5.0
# The last try begins at the limit, and learns what became of a write.
_LAST_TRY_S = 0.5
# Callers whose time is up one shortly after the other are looked for together.
_LOOK_EVERY_S = 0.1
_HEDGES = 5


def last_since_s(batch: Sequence[Pending], now_s: float) -> float:
    """When the latest call of a batch was submitted; what nobody waits for counts from now."""
    return max((min(pending.since_s, now_s) for pending in batch), default=now_s)


async def in_time(
    work: Coroutine[Any, Any, T],
    batch: Sequence[Pending],
    since_s: float,
    limit_s: float,
    clock: Clock,
    gave_up: Callable[[], Exception],
) -> T:
    """The outcome of the work for a batch, or `gave_up()` when the time of its last call, `since_s`, is up.

    A caller gets that error when its own time is up. It is asked for once for all who get it together.
    """
    loop, began_s = asyncio.get_running_loop(), clock.monotonic_s()
    limit_s = max(limit_s, ANSWER_S) + _LAST_TRY_S
    first_s = min([began_s, *(pending.since_s for pending in batch)])
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        now_s = clock.monotonic_s()
        over = [one for one in batch if one.since_s + limit_s <= now_s]
        if any(one.answer is not None and not one.answer.done() for one in over):
            refuse_late(over, gave_up(), now_s)
        timer = loop.call_later(_LOOK_EVERY_S, look)

    timer = loop.call_later(max(_LOOK_EVERY_S, first_s + limit_s - began_s), look)
    left_s = since_s + limit_s - began_s
    scope = asyncio.timeout(left_s if left_s > 0 else ANSWER_S)
    try:
        async with scope:
            return await work
    except TimeoutError:
        if scope.expired():
            raise gave_up() from None
        raise  # the work's own
    finally:
        timer.cancel()


def refuse_late(batch: Sequence[Pending], error: Exception, now_s: float) -> None:
    """Give callers an error, each with its own time."""
    for pending in batch:
        if pending.answer is not None and not pending.answer.done():
            pending.answer.set_exception(with_time(error, now_s - pending.since_s))


def with_time(error: Exception, waited_s: float) -> Exception:
    """The same error, which also states for how long its call was tried; what was never tried again stays."""
    is_passing = isinstance(error, StorageError | CASConflictError)
    if not is_passing or isinstance(error, UnusableStorageError) or waited_s == float("-inf"):
        return error
    told = type(error).__new__(type(error))
    told.__dict__.update(error.__dict__)
    text = str(error.args[0] if error.args else error)
    told.args = (f"{text}{'' if text.endswith(('.', '?')) else '.'} Gave up after {waited_s:.1f} s.",)
    told.__cause__ = error
    return told


async def hedged(read: Callable[[], Awaitable[T]], after_s: float) -> T:
    """The first answer to a read, which is sent again while none comes: after some time, then twice as long.

    Raises StorageError when none of five is answered.

    >>> asyncio.run(hedged(lambda: asyncio.sleep(0, "read"), after_s=1.0))
    'read'
    """
    reads = set[asyncio.Future[T]]()
    try:
        for doublings in range(_HEDGES):
            reads.add(asyncio.ensure_future(read()))
            answered, _ = await asyncio.wait(
                reads, timeout=after_s * 2**doublings, return_when=asyncio.FIRST_COMPLETED
            )
            for one in answered:
                return one.result()
        raise StorageError(f"the storage has not answered any of {_HEDGES} reads")
    finally:
        for one in reads:
            one.add_done_callback(ignore)
            one.cancel()
