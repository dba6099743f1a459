"""Workload: what is asked of a queue while the clock runs.

Bucketq and jqueue play the same workloads, each in a Python of its own, so this file
needs neither of them: only a queue with `enqueue`, `dequeue` and `ack`.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

ENTRYPOINT = "bench"
_FILL_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Workload:
    """So many operations, by so many callers at a time.

    `kind` is "enqueue", "work" (dequeue, then ack: one operation) or "mixed" (half of the
    callers enqueue, half work). `filled` jobs are put in before the clock starts.
    """

    name: str
    kind: str
    callers: int = 1
    operations: int = 1000
    payload_bytes: int = 1000
    filled: int = 0

    def shortened(self) -> "Workload":
        """The same with few operations: to see that it works, not how fast."""
        operations = 2 * max(self.callers, 10)
        filled = min(self.filled, operations)
        return replace(self, operations=operations, filled=filled)


async def fill(queue: Any, workload: Workload) -> None:
    """Put in the jobs that should wait, and tidy up, before the clock starts."""
    payload = b"x" * workload.payload_bytes
    for start in range(0, workload.filled, _FILL_AT_ONCE):
        count = min(_FILL_AT_ONCE, workload.filled - start)
        await asyncio.gather(*(queue.enqueue(ENTRYPOINT, payload) for _ in range(count)))
    gc.collect()


async def play(queue: Any, workload: Workload) -> float:
    """Play the workload on an open, filled queue; return the seconds that it took."""
    payload = b"x" * workload.payload_bytes
    started = perf_counter()
    await _PLAYERS[workload.kind](queue, workload, payload)
    return perf_counter() - started


async def _enqueue(queue: Any, workload: Workload, payload: bytes) -> None:
    if workload.callers == 1:
        for _ in range(workload.operations):
            await queue.enqueue(ENTRYPOINT, payload)
        return
    for _ in range(workload.operations // workload.callers):
        await asyncio.gather(*(queue.enqueue(ENTRYPOINT, payload) for _ in range(workload.callers)))


async def _work(queue: Any, workload: Workload, payload: bytes) -> None:
    for _ in range(workload.operations):
        await _work_once(queue)


async def _mixed(queue: Any, workload: Workload, payload: bytes) -> None:
    half = workload.callers // 2
    for _ in range(workload.operations // workload.callers):
        producers = (queue.enqueue(ENTRYPOINT, payload) for _ in range(half))
        workers = (_work_once(queue) for _ in range(half))
        await asyncio.gather(*producers, *workers)


async def _work_once(queue: Any) -> None:
    # Unpacking checks that there was a job: an empty answer would be fast, and no work.
    [job] = await queue.dequeue(ENTRYPOINT)
    await queue.ack(job.id)


_PLAYERS: dict[str, Callable[[Any, Workload, bytes], Awaitable[None]]] = {
    "enqueue": _enqueue,
    "work": _work,
    "mixed": _mixed,
}
