"""Deadline: each call has one, from its submission to its answer: it queues, and is tried, within it.

    submitted ──▶ queues ──▶ a try ──▶ another try … ──▶ the answer
        └───────────────── limit_s ─────────────────┴──▶ an error, with the real time

Callers share a batch. Each gets the error when its own time is up. The work for the batch ends with the last.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from bucketq.clock import Clock
from bucketq.errors import CASConflictError, StorageError, UnusableStorageError
from bucketq.pending import Pending

T = TypeVar("T")

# A healthy storage, or broker, answers within this time: one request gets it, however short the limit is.
ANSWER_S = 5.0
# The last try begins at the limit.
_LAST_TRY_S = 0.1
# Callers whose time is up one shortly after the other are looked for together.
_LOOK_EVERY_S = 0.05


def last_since_s(batch: Sequence[Pending], now_s: float) -> float:
    """When the latest call of a batch was submitted; what nobody waits for counts from now."""
    return max((min(pending.since_s, now_s) for pending in batch), default=now_s)


async def in_time(
    work: Coroutine[Any, Any, T],
    batch: Sequence[Pending],
    limit_s: float,
    clock: Clock,
    gave_up: Callable[[], Exception],
) -> T:
    """The outcome of the work for a batch, or `gave_up()` when the time of its last call is up.

    A caller gets that error when its own time is up. It is asked for once for all who get it together.
    """
    loop, began_s = asyncio.get_running_loop(), clock.monotonic_s()
    limit_s = max(limit_s, ANSWER_S) + _LAST_TRY_S

    def look() -> None:
        nonlocal timer
        now_s = clock.monotonic_s()
        waiting = [one for one in batch if one.answer is not None and not one.answer.done()]
        if over := [one for one in waiting if one.since_s + limit_s <= now_s]:
            refuse_late(over, gave_up(), now_s)
        later_s = [one.since_s + limit_s - now_s for one in waiting if one.since_s + limit_s > now_s]
        timer = loop.call_later(max(_LOOK_EVERY_S, min(later_s, default=limit_s)), look)

    first_s = min((min(pending.since_s, began_s) for pending in batch), default=began_s)
    left_s = last_since_s(batch, began_s) + limit_s - began_s
    timer = loop.call_later(max(_LOOK_EVERY_S, first_s + limit_s - began_s), look)
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
