"""Rivals: busy writers of one object, each as in a process of its own, on a far storage in virtual time.

A request takes half of its time to the storage and half back, and a conditional write is decided
in between. So a writer that has just won can write again one round trip later, while one that
has lost must read first.
"""

import asyncio
import random
from dataclasses import dataclass, field

from bucketq import BrokerQueue, CASConflictError
from bucketq.mint import Mint
from bucketq.testing.virtual_time import Process, VirtualClock, run


@dataclass
class FarBucket:
    """The object that all writers share."""

    content: bytes = b""
    generation: int = 0

    @property
    def etag(self):
        return str(self.generation) if self.generation else None


class FarStorage:
    """One writer's way to the object: `latency_s` there and back, give or take the share `jitter`."""

    def __init__(self, bucket, latency_s, jitter=0.0, seed=0):
        self.bucket = bucket
        self.latency_s = latency_s
        self.jitter = jitter
        self.reads = self.writes = self.refused = self.landed = 0
        self.hangs = False
        self._random = random.Random(seed)

    async def read(self):
        self.reads += 1
        return await self._ask(lambda: (self.bucket.content, self.bucket.etag))

    async def write(self, content, if_match=None):
        self.writes += 1
        return await self._ask(lambda: self._put(content, if_match))

    def _put(self, content, if_match):
        if if_match != self.bucket.etag:
            self.refused += 1
            raise CASConflictError(f"412: at {self.bucket.etag}, not {if_match}")
        self.landed += 1
        self.bucket.content, self.bucket.generation = content, self.bucket.generation + 1
        return self.bucket.etag

    async def _ask(self, act):
        await asyncio.sleep(self._leg_s())
        while self.hangs:
            await asyncio.sleep(0.1)
        try:
            return act()
        finally:
            await asyncio.sleep(self._leg_s())

    def _leg_s(self):
        return self.latency_s / 2 * self._random.uniform(1 - self.jitter, 1 + self.jitter)


@dataclass
class Rival:
    """A writer, and how long each of its calls took; `began_s` and the time that it took, of each."""

    storage: FarStorage
    calls: list[tuple[float, float]] = field(default_factory=list)
    process: Process = field(default_factory=lambda: Process("rival"))

    def after(self, warm_s):
        """The times of those calls that ended later than this."""
        return [took_s for began_s, took_s in self.calls if began_s + took_s >= warm_s]


@dataclass
class Contest:
    """What came of it."""

    rivals: list[Rival]
    seconds: float
    warm_s: float

    @property
    def counts(self):
        return [len(rival.after(self.warm_s)) for rival in self.rivals]

    @property
    def per_s(self):
        return sum(self.counts) / (self.seconds - self.warm_s)

    @property
    def fairness(self):
        return min(self.counts) / max(self.counts)

    def percentile_s(self, share):
        took = sorted(took for rival in self.rivals for took in rival.after(self.warm_s))
        return took[int(share * (len(took) - 1))]

    @property
    def requests(self):
        """Writes that landed, refused writes and reads."""
        writes, refused = (
            sum(getattr(one.storage, what) for one in self.rivals) for what in ("writes", "refused")
        )
        return writes - refused, refused, sum(one.storage.reads for one in self.rivals)


def compete(
    latencies_s,
    *,
    seconds=8.0,
    warm_s=0.0,
    callers=10,
    rests_s=0,
    jitter=0.0,
    seed=0,
    starts_s=None,
    meanwhile=None,
):
    """Let a writer for each latency enqueue without rest. `meanwhile(rivals)` may interfere."""

    async def main():
        bucket = FarBucket()
        rivals, tasks = [], []
        for number, latency_s in enumerate(latencies_s):
            rival = Rival(FarStorage(bucket, latency_s, jitter, seed * 1000 + number))
            rivals.append(rival)
            load = _enqueue(
                rival,
                seconds,
                callers[number] if isinstance(callers, list) else callers,
                rests_s[number] if isinstance(rests_s, list) else rests_s,
                seed * 1000 + number,
                (starts_s or {}).get(number, 0),
            )
            tasks.append(rival.process.start(load))
        if meanwhile:
            tasks.append(asyncio.create_task(meanwhile(rivals)))
        await asyncio.sleep(seconds)
        for rival in rivals:
            rival.process.kill()
        for task in tasks:
            task.cancel()
        for rival in rivals:
            rival.process.bury()
        await asyncio.gather(*tasks, return_exceptions=True)
        return Contest(rivals, seconds, warm_s)

    return run(main())


async def _enqueue(rival, until_s, callers, rest_s, seed, start_s):
    await asyncio.sleep(start_s)
    loop = asyncio.get_running_loop()
    async with BrokerQueue(rival.storage, clock=VirtualClock(), mint=Mint(random.Random(seed))) as queue:

        async def call():
            while loop.time() < until_s:
                began_s = loop.time()
                await queue.enqueue("mail", b"{}")
                rival.calls.append((began_s, loop.time() - began_s))
                await asyncio.sleep(rest_s)

        await asyncio.gather(*(call() for _ in range(callers)))
