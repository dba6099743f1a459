"""Conditions: whether the server honours conditional writes, each kind tried by itself."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from bucketq.doctor.finding import Finding, Level
from bucketq.doctor.room import Room, unhurried
from bucketq.errors import StorageError
from bucketq.storage.proof import MISSING_OBJECT, SECOND_CREATE, STALE_ETAG, WHY, lands

ABOUT = "conditional writes"

_CREATORS = 8


async def check_conditions(room: Room) -> AsyncIterator[Finding]:
    """A race of creators, a stale etag, and an etag for an object that is missing. Raises StorageError."""
    is_won_once = await _race(room)
    yield _finding(is_won_once, f"of {_CREATORS} that create one object at once, one succeeds", SECOND_CREATE)
    is_refused, etag = await _refuses_stale(room)
    yield _finding(is_refused, "a write with the etag of an older version is refused", STALE_ETAG)
    is_refused = not await lands(room.open("missing"), b"1", etag)
    yield _finding(is_refused, "a write to an object that was deleted meanwhile is refused", MISSING_OBJECT)


async def _race(room: Room) -> bool:
    probe = room.open("race")
    contents = [b"%d" % number for number in range(_CREATORS)]
    creators = (unhurried(partial(lands, probe, content)) for content in contents)
    answers = await asyncio.gather(*creators)
    winners = [content for content, has_landed in zip(contents, answers, strict=True) if has_landed]
    if not winners:
        raise StorageError(f"of {_CREATORS} that create a new object at once, none was told that it did")
    return winners == [(await probe.read())[0]]


async def _refuses_stale(room: Room) -> tuple[bool, str]:
    probe = room.open("stale")
    first = await probe.write(b"1")
    second = await unhurried(partial(probe.write, b"2", first))
    return not await unhurried(partial(lands, probe, b"3", first)), second


def _finding(is_sound: bool, found: str, fault: str) -> Finding:
    if is_sound:
        return Finding(ABOUT, Level.OK, found)
    return Finding(ABOUT, Level.PROBLEM, f"this server {fault}", WHY)
