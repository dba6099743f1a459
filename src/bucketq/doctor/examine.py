"""examine: look at a storage, or at brokers, and at the queue there; tell each finding as it comes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bucketq.clock import SystemClock
from bucketq.codec import decode
from bucketq.doctor.access import check_access
from bucketq.doctor.brokers import check_brokers, check_leader, check_spending
from bucketq.doctor.conditions import check_conditions
from bucketq.doctor.costs import estimate
from bucketq.doctor.counting import check_counting
from bucketq.doctor.file_system import check_file_system
from bucketq.doctor.finding import Finding, Level
from bucketq.doctor.health import diagnose
from bucketq.doctor.measures import check_clock, check_latency, check_versions
from bucketq.doctor.room import Room, probe_room
from bucketq.errors import (
    BucketQError,
    CASConflictError,
    CorruptStateError,
    StorageError,
    UnusableStorageError,
)
from bucketq.remote.queue import RemoteQueue
from bucketq.settings import Settings
from bucketq.storage import InMemoryStorage, LocalFileSystemStorage, open_storage
from bucketq.storage.port import Bucket, ObjectStoragePort, describe, endpoint_of
from bucketq.url import BROKER_SCHEMES, connect

_AGAIN = "Run it again; if it stays so, mend that first."
_MEND = "Mend that, then run it again: nothing works before."
_BROKER_WAIT_S = 2.0


async def examine(
    url: str, *, storage_options: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> AsyncIterator[Finding]:
    """Examine the storage and the queue at a URL, or by way of its brokers.

        async for finding in examine("s3://my-bucket/jobs.json"):
            print(finding.level, finding.about, finding.found, finding.advice)

    Nothing is changed: what has to be tried is tried on objects beside the queue, which are removed. It
    takes some seconds. What cannot be looked at is a finding too. `storage_options` are those of
    `open_storage`; they go to other processes as well. Raises ConfigurationError for a URL that makes no
    sense.
    """
    settings = settings or Settings()
    if urlsplit(url).scheme in BROKER_SCHEMES:
        findings = _of_brokers(url, settings)
    else:
        findings = _of_storage(url, storage_options or {}, settings)
    async for finding in findings:
        yield finding


async def _of_storage(url: str, options: Mapping[str, Any], settings: Settings) -> AsyncIterator[Finding]:
    storage = open_storage(url, **options)
    if isinstance(storage, InMemoryStorage):
        found = "memory is within one process, and its queues end with it: there is nothing to examine"
        yield Finding("storage", Level.NOTE, found)
        return
    if isinstance(storage, LocalFileSystemStorage):
        if finding := check_file_system(storage.path):
            yield finding
        if holder := await asyncio.to_thread(storage.lock_holder):
            advice = "Resume or end that process: nobody writes until then. Do not delete the lock file."
            yield Finding("lock", Level.PROBLEM, f"{storage.path}.lock is held {holder}", advice)
    room = failure = None
    try:
        async with probe_room(url, options) as room:
            async for finding in _of_room(room, urlsplit(url).scheme):
                yield finding
    except (CASConflictError, StorageError, OSError) as error:
        failure = _failed("access", error)
        yield failure
    if room is not None and room.names:
        advice = "Delete what there is of them, or let somebody do it who may."
        yield Finding("probes", Level.WARNING, f"could not be removed: {', '.join(room.names)}", advice)
    if failure is not None:
        return
    checks = {
        "objects": _of_objects(storage),
        "queue": _of_queue(storage, settings),
        "brokers": check_leader(storage),
    }
    async for finding in _guarded(checks):
        yield finding
    for finding in estimate(url, endpoint_of(storage), settings):
        yield finding


async def _of_room(room: Room, scheme: str) -> AsyncIterator[Finding]:
    access = await check_access(room, scheme)
    for finding in access.findings:
        yield finding
    if "create" not in access.allowed or "read" not in access.allowed:
        found = "not tried: it takes the permission to create objects and to read them"
        yield Finding("conditional writes", Level.FAILED, found, "Run it with such credentials.")
        return
    checks = {
        "conditional writes": check_conditions(room),
        "concurrent writes": check_counting(room),
        "latency": check_latency(room),
    }
    if scheme != "file":
        checks["versions"] = check_versions(room)
        if "list" in access.allowed:
            checks["clocks"] = check_clock(room)
            if "delete" in access.allowed:
                checks["probes"] = _swept(room)
    async for finding in _guarded(checks):
        yield finding


async def _swept(room: Room) -> AsyncIterator[Finding]:
    if count := await room.sweep():
        yield Finding("probes", Level.OK, f"{count} were left by processes that were killed: removed")


async def _of_brokers(url: str, settings: Settings) -> AsyncIterator[Finding]:
    queue = connect(url, settings=replace(settings, retry_for_s=_BROKER_WAIT_S))
    assert isinstance(queue, RemoteQueue)
    async with queue:
        checks = {
            "brokers": check_brokers(queue),
            "queue": _of_queue(queue.storage, settings),
            "cost": check_spending(queue),
        }
        async for finding in _guarded(checks):
            yield finding
    found = "not examined: a broker does not show it"
    yield Finding("storage", Level.NOTE, found, "`bucketq doctor` with the storage's URL does, from there.")


async def _of_objects(storage: Bucket) -> AsyncIterator[Finding]:
    """Fail where the queue's own objects can't be listed: at a symbolic link in its folder, for one."""
    for folder in ("archive/", "backlog/", "payloads/"):
        async for info in storage.objects.list(folder):
            yield Finding("objects", Level.OK, f"{folder} can be listed, from {info.name} on")
            break


async def _of_queue(storage: ObjectStoragePort, settings: Settings) -> AsyncIterator[Finding]:
    content, etag = await storage.read()
    if etag is None:
        yield Finding("queue", Level.NOTE, f"there is none at {describe(storage)} yet", "Enqueue a job.")
        return
    try:
        state = decode(content, describe(storage))
    except CorruptStateError as error:
        advice = "Restore queue.json, and the objects beside it, from a backup or an older version."
        yield Finding("queue", Level.PROBLEM, str(error), advice)
        return
    for finding in diagnose(state, len(content), settings, SystemClock().now()):
        yield finding


async def _guarded(checks: Mapping[str, AsyncIterator[Finding]]) -> AsyncIterator[Finding]:
    """The findings of all checks; of one that breaks off, that it did."""
    for about, findings in checks.items():
        try:
            async for finding in findings:
                yield finding
        except (BucketQError, OSError) as error:
            yield _failed(about, error)


def _failed(about: str, error: Exception) -> Finding:
    advice = _MEND if isinstance(error, UnusableStorageError) else _AGAIN
    return Finding(about, Level.FAILED, f"could not be looked at: {error}", advice)
