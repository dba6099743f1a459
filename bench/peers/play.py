"""Play a part with one library, in its own Python: `python -m bench.peers.play NAME DEED '{"url": …}'`.

prepare   make tables, where the library has some
enqueue   enqueue for some seconds, one at a time or a hundred at a time, and print how it went
fill      enqueue so many jobs, a hundred at a time
trickle   enqueue so many jobs, so many a second, with their times on the tape
insist    enqueue one at a time, each again until it is acknowledged, until killed
work      run jobs until killed; in memory, after enqueueing them
"""

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

from bench.peers.handler import tape

AT_ONCE = 100


class Contestant(Protocol):
    """What each file of `contestants` has; `prepare`, too, where a server has to be set up."""

    def __init__(self, url: str) -> None: ...

    async def open(self) -> None:
        """Get ready to enqueue."""

    async def enqueue(self, number: int) -> None:
        """Enqueue one job, and return when the library says that it is in."""

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Enqueue many, in the way that the library has for it."""

    def work(self) -> None:
        """Run jobs until killed."""


def main() -> None:
    """Do what the command line says."""
    name, deed, told = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    contestant = importlib.import_module(f"bench.peers.contestants.{name}").Contestant(told.pop("url"))
    if deed == "work" and not told:
        contestant.work()
        return
    print(json.dumps(asyncio.run(_DEEDS[deed](contestant, **told))), flush=True)
    # Without the goodbyes of the library: whatever counts has been acknowledged.
    os._exit(0)


async def _prepare(contestant: Any) -> None:
    await contestant.prepare()


async def _enqueue(contestant: Contestant, way: str, seconds: float) -> dict[str, float]:
    await contestant.open()
    await _call(contestant, way, 0)
    done, began_s, before_s = 0, time.perf_counter(), _cpu_s()
    while (took_s := time.perf_counter() - began_s) < seconds:
        done += await _call(contestant, way, done)
    return {"jobs": done, "seconds": took_s, "cpu_s": _cpu_s() - before_s}


async def _call(contestant: Contestant, way: str, first: int) -> int:
    if way == "one":
        await contestant.enqueue(first)
        return 1
    await contestant.enqueue_many(range(first, first + AT_ONCE))
    return AT_ONCE


async def _fill(contestant: Contestant, jobs: int) -> None:
    await contestant.open()
    for first in range(0, jobs, AT_ONCE):
        await contestant.enqueue_many(range(first, min(first + AT_ONCE, jobs)))


async def _trickle(contestant: Contestant, jobs: int, per_s: float, first: int = 0) -> None:
    await contestant.open()
    began_s = time.monotonic()
    for number in range(jobs):
        await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
        tape().note("sent", first + number)
        await contestant.enqueue(first + number)


async def _insist(contestant: Contestant, first: int) -> None:
    opened, number = False, first
    while True:
        try:
            if not opened:
                await contestant.open()
                opened = True
            tape().note("sent", number)
            await contestant.enqueue(number)
        except Exception as error:
            # Nobody knows whether it is in: to be sure that it is, it has to be enqueued again.
            print(f"job {number}: {type(error).__name__}: {error}", file=sys.stderr)
            await asyncio.sleep(0.05)
        else:
            tape().note("acked", number)
            number += 1


async def _work(contestant: Any, fill: int = 0, trickle: int = 0, per_s: float = 1) -> None:
    await _fill(contestant, fill)
    work = asyncio.create_task(contestant.work_here())
    await _trickle(contestant, trickle, per_s)
    await work


def _cpu_s() -> float:
    return sum(os.times()[:4])


_DEEDS = {
    "prepare": _prepare,
    "enqueue": _enqueue,
    "fill": _fill,
    "trickle": _trickle,
    "insist": _insist,
    "work": _work,
}

if __name__ == "__main__":
    main()
