"""Measures: how long requests take, how far the clocks are apart, what overwriting costs."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import TypeVar

from bucketq.doctor.finding import Finding, Level
from bucketq.doctor.room import Room, unhurried
from bucketq.errors import StorageError
from bucketq.storage.cloud import CloudStorage
from bucketq.words import spell_time

T = TypeVar("T")

_SAMPLES = 5
_SLOW_WRITE_MS = 500.0
# A storage's time stamps are often whole seconds.
_GRAIN = timedelta(seconds=1)
# By so much a job for later is early or late; more may surprise somebody.
_SKEW_MAX_S = 60.0


async def check_latency(room: Room) -> AsyncIterator[Finding]:
    """The median of a few reads and conditional writes. Raises StorageError."""
    probe = room.open("latency")
    etag = await probe.write(b"0")
    reads_ms, writes_ms = [], []
    for number in range(1, _SAMPLES + 1):
        _, read_ms = await _timed(probe.read)
        write = partial(probe.write, b"%d" % number, etag)
        # With the time for which the storage asks to wait: commits wait as well.
        etag, write_ms = await _timed(partial(unhurried, write))
        reads_ms.append(read_ms)
        writes_ms.append(write_ms)
    read_ms, write_ms = median(reads_ms), median(writes_ms)
    found = (
        f"a read takes {read_ms:.1f} ms, a conditional write {write_ms:.1f} ms:"
        f" up to {_rate(1000 / write_ms)} commits a second, each for all who wait"
    )
    if write_ms <= _SLOW_WRITE_MS:
        yield Finding("latency", Level.OK, found)
    else:
        advice = "Run brokers and workers near the storage, in the same region."
        yield Finding("latency", Level.WARNING, found, advice)


async def check_clock(room: Room) -> AsyncIterator[Finding]:
    """The storage's clock against this machine's, by an object that was just made. Raises StorageError."""
    name = room.name("clock")
    before = datetime.now(UTC)
    await room.storage.objects.create(name, b"")
    after = datetime.now(UTC)
    stamps = [info.modified_at async for info in room.storage.objects.list(name) if info.name == name]
    if not stamps:
        raise StorageError(f"an object that was just made is not listed: {name}")
    stamp = stamps[0]
    ahead_s, behind_s = (stamp - after).total_seconds(), (before - _GRAIN - stamp).total_seconds()
    took_s = (after - before + _GRAIN).total_seconds()
    if ahead_s <= 0 and behind_s <= 0:
        yield Finding("clocks", Level.OK, f"those of storage and machine agree within {took_s:.1f} s")
        return
    way, apart_s = ("behind", ahead_s) if ahead_s > 0 else ("ahead of", behind_s)
    level = Level.WARNING if apart_s > _SKEW_MAX_S else Level.NOTE
    yield Finding(
        "clocks",
        level,
        f"this machine's clock is {spell_time(apart_s)} {way} the storage's",
        "Set it by NTP. No job is lost or doubled by it, but jobs for later run early or late.",
    )


async def check_versions(room: Room) -> AsyncIterator[Finding]:
    """Whether the bucket keeps every version of queue.json. Raises StorageError."""
    probe = room.open("versions")
    if not isinstance(probe, CloudStorage):
        return
    await probe.write(b"1")
    keeps = await probe.keeps_versions()
    if keeps is None:
        yield Finding(
            "versions",
            Level.NOTE,
            "this storage does not tell whether it keeps old versions of objects",
            "Look at the bucket's settings. If it does: each commit is a version that costs storage, so let"
            " a lifecycle rule remove old versions after some days.",
        )
    elif keeps:
        yield Finding(
            "versions",
            Level.WARNING,
            "the bucket keeps old versions of objects, and each commit makes one, as large as queue.json",
            "Let a lifecycle rule remove old versions after some days, those of the objects that the"
            " doctor has just removed as well.",
        )
    else:
        yield Finding("versions", Level.OK, "the bucket keeps no old versions, so commits cost no storage")


async def _timed(request: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """The answer, and how many milliseconds it took."""
    began_s = time.perf_counter()
    answer = await request()
    return answer, 1000 * (time.perf_counter() - began_s)


def _rate(per_s: float) -> str:
    return f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.1f}"
