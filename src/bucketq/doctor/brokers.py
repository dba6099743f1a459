"""Brokers: whether they answer, which one leads, and whether its heart beats.

As everywhere, a heart is judged by whether it is seen to beat, not by what the clocks say.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

from bucketq.codec import leader_of
from bucketq.doctor.finding import Finding, Level
from bucketq.errors import BucketQError, CorruptStateError, NotLeaderError
from bucketq.remote.brokers import Brokers, UnreachableError
from bucketq.remote.queue import RemoteQueue
from bucketq.storage import Bucket
from bucketq.told import SpendingTold

ABOUT = "brokers"

_LOOK_EVERY_S = 0.25
# Three beats of a leader with the default settings.
_BEAT_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 5.0


async def check_leader(storage: Bucket) -> AsyncIterator[Finding]:
    """Watch the leader's heart, if one leads. Raises StorageError."""
    content, etag = await storage.read()
    try:
        leader = leader_of(content) if etag is not None else None
    except CorruptStateError:
        # That is told of the queue itself.
        return
    if leader is None:
        yield Finding(ABOUT, Level.OK, "no broker leads; whoever reaches the storage can use the queue")
        return
    who = f"the broker at {leader.address or leader.http}"
    began_s = time.monotonic()
    while time.monotonic() < began_s + _BEAT_WITHIN_S:
        await asyncio.sleep(_LOOK_EVERY_S)
        changed = await storage.read_if_changed(etag)
        if changed is None:
            continue
        content, etag = changed
        now = leader_of(content) if etag is not None else None
        if now != leader:
            is_same = now is not None and now.epoch == leader.epoch
            beat = f"{who} leads, and its heart beats" if is_same else f"{who} has just handed over"
            yield Finding(ABOUT, Level.OK, f"{beat} (term {leader.epoch})")
            return
    yield Finding(
        ABOUT,
        Level.PROBLEM,
        f"{who} leads, and its heart has not beaten for {_BEAT_WITHIN_S:g} s or more: it is gone, or cut off",
        "Start one with `bucketq serve`; it takes over by itself. If one runs: does it reach the storage, or"
        " has it a longer --heartbeat-interval-s?",
    )


async def check_brokers(queue: RemoteQueue) -> AsyncIterator[Finding]:
    """Ask each broker whether it leads. Raises what it refuses with, such as UnauthenticatedError."""
    for address in queue.addresses:
        began_s = time.perf_counter()
        error = await queue.ask(partial(_ask, address))
        took_ms = 1000 * (time.perf_counter() - began_s)
        if error is None:
            yield Finding(ABOUT, Level.OK, f"{address} leads, and answers within {took_ms:.1f} ms")
        elif isinstance(error, NotLeaderError):
            yield Finding(ABOUT, Level.OK, f"{address} answers and waits: {error}")
        else:
            advice = "Is it running (`bucketq serve`), and is the address right?"
            yield Finding(ABOUT, Level.WARNING, f"{address} does not answer: {error}", advice)


async def check_spending(queue: RemoteQueue) -> AsyncIterator[Finding]:
    """Ask the leader what it spends. Raises what it refuses with."""
    spending = await queue.fetch_spending()
    if spending.least_per_month is not None:
        advice = "Raise budget_per_month, or let commits be further apart: docs/operations.md, A budget."
        yield Finding("cost", Level.WARNING, SpendingTold.of(spending).spelt(), advice)
    else:
        yield Finding("cost", Level.OK, SpendingTold.of(spending).spelt())


async def _ask(address: str, brokers: Brokers, _leader: str) -> Exception | None:
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            await brokers.read_object(address, "")
    except TimeoutError:
        return BucketQError(f"no answer within {_ANSWER_WITHIN_S:g} s")
    except (NotLeaderError, UnreachableError) as error:
        return error
    return None
