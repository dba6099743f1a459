"""One process of several that count together; the doctor starts it and reads what it says.

    standard input    what to do, pickled; later one line: go
    standard output   one line: ready; later one line: what came of it, in JSON

Each process has a number of its own in the shared object, and adds one to it again and again, as
writers of queue.json do. A number that is smaller than it was says that a write was lost.
"""

import asyncio
import json
import pickle
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from bucketq.errors import CASConflictError, SlowDownError, StorageError
from bucketq.storage import open_storage
from bucketq.storage.port import ObjectStoragePort

# GCS takes about one write a second to an object.
_SLOW_DOWN_S = 1.0
_FAILURES_MAX = 5


class Order(NamedTuple):
    """What a process is to do."""

    url: str
    options: Mapping[str, Any]
    who: str
    times: int
    for_s: float


@dataclass
class Tally:
    """What came of it: the number as it should be now, and the writes behind it."""

    number: int = 0
    landed: int = 0
    refused: int = 0
    lost: int = 0
    # Reads of what nobody has written.
    garbled: int = 0
    # Why it has stopped before its time, if it has.
    failure: str = ""


async def count(storage: ObjectStoragePort, order: Order) -> Tally:
    """Add one, as often as ordered, or until the time is up, or until the storage only fails."""
    tally = Tally()
    failures = 0
    until_s = time.monotonic() + order.for_s
    while tally.landed < order.times and time.monotonic() < until_s:
        try:
            await _add_one(storage, order.who, tally)
            failures = 0
        except SlowDownError:
            await asyncio.sleep(_SLOW_DOWN_S)
        except StorageError as error:
            failures += 1
            if failures > _FAILURES_MAX:
                tally.failure = str(error)
                break
    return tally


async def _add_one(storage: ObjectStoragePort, who: str, tally: Tally) -> None:
    content, etag = await storage.read()
    numbers = numbers_in(content)
    if numbers is None:
        tally.garbled += 1
        return
    found = numbers.get(who, 0)
    tally.lost += max(0, tally.number - found)
    # It may be larger, too: when a write landed whose answer was lost.
    tally.number = found
    try:
        await storage.write(json.dumps({**numbers, who: found + 1}).encode(), etag)
    except CASConflictError:
        tally.refused += 1
    else:
        tally.number, tally.landed = found + 1, tally.landed + 1


def numbers_in(content: bytes) -> dict[str, int] | None:
    """The numbers of all processes; None if the content is none that one of them has written."""
    try:
        numbers: dict[str, int] = json.loads(content)
    except ValueError:
        return None
    return numbers


async def _main() -> None:
    order: Order = pickle.load(sys.stdin.buffer)
    storage = open_storage(order.url, **order.options)
    # The first request takes longer: it connects.
    await storage.read()
    print("ready", flush=True)
    # Nothing comes from a doctor that is gone.
    if await asyncio.to_thread(sys.stdin.buffer.readline):
        print(json.dumps(asdict(await count(storage, order))))


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except StorageError as error:
        sys.exit(str(error))
