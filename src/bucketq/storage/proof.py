"""Proof: whether a server honours conditional writes, tried before a queue relies on it.

    create an object     lands
    create it again      must be refused    If-None-Match: *
    replace it           lands              If-Match: its etag
    replace it again     must be refused    If-Match: the etag from before
    delete it

All on an object of its own beside the queue. A server that ignores conditions says yes to each
of these, and two writers of queue.json would overwrite each other's jobs without a word.
"""

import asyncio
import secrets
from collections import Counter
from contextlib import suppress
from typing import Protocol

from bucketq.errors import AccessDeniedError, CASConflictError, StorageError, UnusableStorageError
from bucketq.storage.port import Bucket, ObjectStoragePort, describe

PROBES = "probe/"

# What a server does that no queue can live with.
SECOND_CREATE = "creates an object although there is one of that name: it ignores If-None-Match"
STALE_ETAG = "replaces an object that has changed meanwhile: it ignores If-Match"
MISSING_OBJECT = "takes a write to an object that was deleted meanwhile: it ignores If-Match"
WHY = "Writers would overwrite each other's jobs. Use a server that honours conditional writes."

# Longer than five requests take anywhere. A server that is as slow as that has other troubles first.
_PROOF_S = 5.0
# GCS may refuse two writes to one object within a second, each time.
_TRIES_MAX = 3

_proven: set[object] = set()
_tries: Counter[object] = Counter()


class Proven(Bucket, Protocol):
    """A bucket whose server may be another than it says."""

    def beside(self, name: str) -> ObjectStoragePort:
        """An object beside the queue, to be read and written in the way of the queue."""
        ...


async def prove(storage: Proven, place: object) -> None:
    """Raise UnusableStorageError if the server does not honour conditions.

    Each `place` is tried once in a process. Where it cannot be tried, because objects beside the
    queue may not be made or the server fails again and again, nothing is known and nothing is raised.
    """
    if place in _proven or _tries[place] >= _TRIES_MAX:
        return
    name = f"{PROBES}{secrets.token_hex(8)}"
    try:
        async with asyncio.timeout(_PROOF_S):
            fault = await find_fault(storage.beside(name))
    except AccessDeniedError:
        fault = None
    except (CASConflictError, StorageError, OSError):
        _tries[place] += 1
        return
    finally:
        with suppress(StorageError, OSError):
            async with asyncio.timeout(_PROOF_S):
                await storage.objects.delete(name)
    if fault is not None:
        raise unsound(describe(storage), fault)
    _proven.add(place)


async def find_fault(probe: ObjectStoragePort) -> str | None:
    """What the server does wrong with an object that was not there before; None if it does all right."""
    first = await probe.write(b"1")
    if await lands(probe, b"2"):
        return SECOND_CREATE
    await probe.write(b"3", first)
    return STALE_ETAG if await lands(probe, b"4", first) else None


async def lands(probe: ObjectStoragePort, content: bytes, if_match: str | None = None) -> bool:
    """Whether a write lands; False if it was refused."""
    try:
        await probe.write(content, if_match)
    except CASConflictError:
        return False
    return True


def unsound(url: str, fault: str) -> UnusableStorageError:
    """The error for a server that is no place for a queue."""
    return UnusableStorageError(
        f"{url} is no place for a queue: this server {fault}. {WHY}"
        " The queue was not touched. `bucketq doctor` tells whether a server does."
    )
