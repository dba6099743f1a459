"""HeldSegment: a segment that was claimed as a whole, and is dealt out in slices.

    left ──deal──▶ slice ──▶ an executor, which reads the jobs, and stages the lines of completed ones
     ▲               │ not begun
     └───────────────┤
                     ▼ staged, ended by themselves, crashed, or given back
    when all are accounted for, one small commit settles the segment; single jobs are settled after it

So the jobs' bytes pass neither queue.json nor, for the most part, the driver.
"""

import logging
from collections import deque
from datetime import UTC, datetime
from itertools import chain

from bucketq.app.outcome import Completed, Crashed, Outcome
from bucketq.app.settling import Settling
from bucketq.errors import ClaimLostError, ObjectNotFoundError
from bucketq.job import Claim, Job
from bucketq.ledger import StagedPart
from bucketq.operation import Heartbeat
from bucketq.queue import Queue
from bucketq.segment import Segment
from bucketq.segment_claim import SegmentClaim
from bucketq.spark.fleet.chunk import Chunk, Tally
from bucketq.spark.fleet.insisting import insist
from bucketq.spark.fleet.objects import objects_of
from bucketq.spark.fleet.order import Done, Slice, SliceDone

log = logging.getLogger("bucketq")


class HeldSegment:
    """The jobs of a claimed segment, by their places in it, until all of them are settled."""

    def __init__(self, queue: Queue, claim: SegmentClaim, settling: Settling, tally: Tally) -> None:
        self.claim = claim
        self.is_settled = False
        self._is_settling = False
        self._queue = queue
        self._settling = settling
        self._tally = tally
        self._left = deque([range(claim.segment.count)])
        self._out: dict[Chunk, range] = {}
        self._staged: list[StagedPart] = []
        self._ended: list[tuple[Job, Outcome]] = []
        self._crashed: list[range] = []
        self._given_back: list[range] = []

    @property
    def chunks(self) -> list[Chunk]:
        """Those that are with executors."""
        return list(self._out)

    def deal(self, size: int) -> Chunk | None:
        """The next chunk, of so many jobs at most; None if all have been dealt out."""
        if not self._left:
            return None
        places = self._left.popleft()
        if len(places) > size:
            self._left.appendleft(places[size:])
            places = places[:size]
        chunk = Chunk(self, Slice(self.claim, places), len(places))
        self._out[chunk] = places
        return chunk

    async def take_in(self, chunk: Chunk, done: Done | SliceDone) -> None:
        assert isinstance(done, SliceDone)
        places = self._out.pop(chunk)
        if done.begun < len(places):
            self._left.appendleft(places[done.begun :])
        self._staged += done.staged
        self._ended += done.ended
        failed = sum(not isinstance(outcome, Completed) for _, outcome in done.ended)
        self._tally.completed += done.begun - failed
        self._tally.failed += failed
        await self._settle_if_through()

    async def give_up(self, chunk: Chunk, *, is_crash: bool) -> None:
        (self._crashed if is_crash else self._given_back).append(self._out.pop(chunk))
        await self._settle_if_through()

    async def stop(self) -> None:
        """Deal out nothing more, and give the rest back."""
        self._given_back += self._left
        self._left.clear()
        await self._settle_if_through()

    async def _settle_if_through(self) -> None:
        if self._left or self._out or self._is_settling:
            return
        self._is_settling = True
        try:
            await insist(self._settle)
        except (ClaimLostError, ObjectNotFoundError) as error:
            # Or an answer was lost before, and then the single ones are still ours.
            log.warning("the results of %d jobs may be dropped: %s", self.claim.segment.count, error)
        for job, outcome in self._ended:
            self._settling.add(job, outcome)
        self.is_settled = True

    async def _settle(self) -> None:
        if sum(map(len, self._given_back)) == self.claim.segment.count:
            await self._queue.release_segment(self.claim)
            return
        objects = objects_of(self._queue)
        rest: tuple[Segment, ...] = ()
        if self._crashed or self._given_back:
            jobs = self.claim.jobs(await objects.read(self.claim.segment.name))
            self._ended += [(jobs[place], Crashed()) for place in chain(*self._crashed)]
            self._crashed.clear()
            given_back = [jobs[place] for place in chain(*self._given_back)]
            rest = await objects.create_rest(given_back, self.claim.version)
        # A single one stays claimed by itself.
        kept = [Heartbeat(Claim.of(job), datetime.now(UTC)) for job, _ in self._ended]
        await self._queue.settle_segment(self.claim, self._staged, kept, rest)
