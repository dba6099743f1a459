"""The bound: how near group commit comes to what any queue with one object can reach.

Each caller waits for its answer before it asks again, and an answer takes one write. So
`callers` can never get more than `callers / round-trip` operations a second, and that
much only if every write carries all of them and the work between two writes is free.
"""

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from bench.workloads import ENTRYPOINT
from bucketq import BrokerQueue, InMemoryStorage

PAYLOAD_BYTES = 200
TARGETS = {10: 0.95, 100: 0.95, 1000: 0.80}


@dataclass(frozen=True)
class Closeness:
    """What so many callers reached of their bound."""

    callers: int
    round_trip_s: float
    enqueued_per_s: float
    target: float

    @property
    def bound_per_s(self) -> float:
        """What one write a round-trip could carry."""
        return self.callers / self.round_trip_s

    @property
    def share(self) -> float:
        """The part of the bound that was reached."""
        return self.enqueued_per_s / self.bound_per_s

    @property
    def is_met(self) -> bool:
        """Whether the target was reached."""
        return self.share >= self.target


class SlowStorage(InMemoryStorage):
    """Memory whose writes take as long as a remote object's."""

    def __init__(self, latency_s: float) -> None:
        super().__init__()
        self._latency_s = latency_s

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        await asyncio.sleep(self._latency_s)
        return await super().write(content, if_match)


async def approach(callers: int, *, latency_s: float, rounds: int, repeat: int) -> Closeness:
    """Let the callers enqueue `rounds` times each; the median of several runs counts."""
    runs = [await _run(callers, latency_s, rounds) for _ in range(repeat)]
    closest = sorted(runs, key=lambda run: run[0] / run[1])[len(runs) // 2]
    round_trip_s, elapsed_s = closest
    return Closeness(callers, round_trip_s, callers * rounds / elapsed_s, TARGETS[callers])


async def _run(callers: int, latency_s: float, rounds: int) -> tuple[float, float]:
    # Measured beside each run: a timer's real delay depends on the machine and its load.
    round_trip_s = await _round_trip_s(latency_s, writes=max(3, rounds // 2))
    async with BrokerQueue(SlowStorage(latency_s)) as queue:
        await queue.enqueue(ENTRYPOINT, b"")  # the one read that opens the queue
        gc.collect()
        started = perf_counter()
        # The callers move in step, so the time covers whole rounds and nothing else.
        await asyncio.gather(*(_call(queue, rounds) for _ in range(callers)))
        return round_trip_s, perf_counter() - started


async def _call(queue: BrokerQueue, rounds: int) -> None:
    payload = b"x" * PAYLOAD_BYTES
    for _ in range(rounds):
        await queue.enqueue(ENTRYPOINT, payload)


async def _round_trip_s(latency_s: float, writes: int) -> float:
    storage = SlowStorage(latency_s)
    etag = None
    took_s = []
    for _ in range(writes):
        started = perf_counter()
        etag = await storage.write(b"x", if_match=etag)
        took_s.append(perf_counter() - started)
    return median(took_s)
