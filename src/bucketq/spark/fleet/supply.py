"""Supply: claims jobs for a fleet, and deals them out in chunks.

    queue ──claim──▶ singles, held segments ──next──▶ chunk ──▶ a task of Spark's
                        ▲                                        │ not begun in time
                        └────────────────────────────────────────┤
    queue ◀────────── settling ◀─────────────────────────────────┘ an outcome for each job

One lane claims at a time. The others wait for their turn, and find what is left then.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from bucketq.app.settling import Settling
from bucketq.app.signals import unless
from bucketq.errors import ClaimLostError
from bucketq.job import Claim, Job
from bucketq.queue import Queue
from bucketq.spark.fleet.chunk import Chunk, Singles, Tally
from bucketq.spark.fleet.held_segment import HeldSegment
from bucketq.spark.fleet.insisting import insist
from bucketq.spark.fleet.order import Done, Slice, SliceDone
from bucketq.spark.fleet.pace import Pace

# Jobs that are claimed one by one are in queue.json, which every commit writes.
_CLAIMED_MAX = 3000
# Where fewer jobs than these make a chunk, a slice of a segment would not be worth its objects.
_SLICE_MIN = 20
_WAIT_S = 20.0


class Supply:
    """The claimed jobs of a fleet, from their claims to their outcomes.

    `until_empty`: there is no next chunk when nothing waits, and nothing runs that could add to it.
    """

    def __init__(
        self, queue: Queue, entrypoints: Sequence[str], *, lanes: int, batch_size: int, until_empty: bool
    ) -> None:
        self.tally = Tally()
        self._queue = queue
        self._entrypoints = entrypoints
        self._batch_size = batch_size
        self._claim_max = max(1, min(batch_size, _CLAIMED_MAX // lanes))
        self._until_empty = until_empty
        self._settling = Settling(queue, on_settled=self._note_change)
        self._singles = Singles(self._settling, self.tally)
        self._segments: list[HeldSegment] = []
        # Of jobs that are claimed one by one, and of each entrypoint.
        self._pace = Pace()
        self._paces = {entrypoint: Pace() for entrypoint in entrypoints}
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()

    async def next(self) -> Chunk | None:
        """The next chunk, or None when there will be no more. Raises what no waiting mends."""
        async with self._turn:
            while not self._stopping.is_set():
                self._changed.clear()
                if chunk := await self._deal():
                    self.tally.running += len(chunk)
                    return chunk
                if await unless(self._stopping, self._claim()):
                    continue
                if not self._until_empty:
                    await unless(self._changed, self._claim_next(_WAIT_S))
                elif self.tally.running or len(self._settling):
                    await self._changed.wait()
                else:
                    return None
        return None

    async def take_in(self, chunk: Chunk, done: Done | SliceDone) -> None:
        """A task is through: what has ended is settled, what it did not begin is dealt out again."""
        self._learn(chunk, done)
        await chunk.source.take_in(chunk, done)
        self._has_ended(chunk)

    async def give_up(self, chunk: Chunk, *, is_crash: bool) -> None:
        """A task came to no end. Its jobs go back: with a crash behind them, or at no cost."""
        self.tally.crashed += len(chunk) if is_crash else 0
        await chunk.source.give_up(chunk, is_crash=is_crash)
        self._has_ended(chunk)

    async def settle(self) -> None:
        """Settle whatever has ended; never returns."""
        await self._settling.run()

    async def beat(self) -> list[Chunk]:
        """Keep all claims alive; return the chunks of which every claim is lost, or cancelled."""
        found = await asyncio.gather(self._beat_singles(), *map(self._beat_segment, self._segments))
        return [chunk for chunks in found for chunk in chunks]

    def stop(self) -> None:
        """Let there be no next chunk."""
        self._stopping.set()
        self._note_change()

    async def give_back(self) -> None:
        """Give back what was not dealt out, and wait until the queue knows of everything."""
        self._singles.release()
        for segment in self._segments:
            await segment.stop()
        while len(self._settling):
            self._changed.clear()
            await self._changed.wait()

    async def _deal(self) -> Chunk | None:
        if len(self._singles):
            return self._singles.deal(min(self._pace.jobs, self._claim_max))
        for segment in self._segments:
            size = self._paces[segment.claim.segment.entrypoint].jobs
            if size < _SLICE_MIN:
                await segment.stop()
            elif chunk := segment.deal(min(size, self._batch_size)):
                return chunk
        return None

    async def _claim(self) -> bool:
        """Claim what is next in line. False if nothing is."""
        quick = self._quick()
        if quick and await self._claim_singles(at_hand=True):
            return True
        for entrypoint in quick:
            claim = await insist(partial(self._queue.dequeue_segment, entrypoint))
            if claim is not None:
                self._segments.append(HeldSegment(self._queue, claim, self._settling, self.tally))
                return True
        return await self._claim_next()

    async def _claim_next(self, wait_s: float | None = None) -> bool:
        if not self._quick():
            return await self._claim_singles(wait_s)
        # Not more than have to: those behind it may be in a segment that can be claimed as a whole.
        if not await self._claim_singles(wait_s, size=1):
            return False
        await self._claim_singles(at_hand=True)
        return True

    async def _claim_singles(
        self, wait_s: float | None = None, *, size: int | None = None, at_hand: bool = False
    ) -> bool:
        size = size or min(self._pace.jobs, self._claim_max)
        dequeue = partial(self._queue.dequeue, self._entrypoints, batch_size=size)
        jobs = await insist(partial(dequeue, wait=wait_s, at_hand=at_hand))
        self._singles.add(jobs)
        return bool(jobs)

    def _quick(self) -> list[str]:
        """The entrypoints whose jobs are worth to be claimed by whole segments."""
        return [entrypoint for entrypoint, pace in self._paces.items() if pace.jobs >= _SLICE_MIN]

    async def _beat_singles(self) -> list[Chunk]:
        jobs = [*self._settling.jobs(), *self._singles.jobs()]
        # Of a job that was lost, and came again, the last claim is the one that may hold.
        last = {job.id: job for job in sorted(jobs, key=_claimed_at)}
        lost = {Claim.of(job) for job in jobs if job is not last[job.id]}
        for error in await self._queue.heartbeat_many(last.values()) if last else ():
            lost.add(Claim.of(last[error.job_id]))
        return self._singles.lose(lost)

    async def _beat_segment(self, segment: HeldSegment) -> list[Chunk]:
        try:
            await self._queue.heartbeat_segment(segment.claim)
        except ClaimLostError:
            await segment.stop()
            return segment.chunks
        return []

    def _learn(self, chunk: Chunk, done: Done | SliceDone) -> None:
        if isinstance(chunk.work, Slice):
            assert isinstance(done, SliceDone)
            self._paces[chunk.work.claim.segment.entrypoint].learn(done.begun, done.took_s)
            return
        assert isinstance(done, Done)
        begun = sum(outcome is not None for outcome in done.outcomes)
        self._pace.learn(begun, done.took_s)
        for entrypoint in {job.entrypoint for job in chunk.work}:
            self._paces[entrypoint].learn(begun, done.took_s)

    def _has_ended(self, chunk: Chunk) -> None:
        self.tally.running -= len(chunk)
        self._segments = [segment for segment in self._segments if not segment.is_settled]
        self._note_change()

    def _note_change(self) -> None:
        self._changed.set()


def _claimed_at(job: Job) -> datetime:
    assert job.claimed_at is not None
    return job.claimed_at
