"""Segments: all jobs of one are claimed by one commit and settled by another, without passing queue.json.

The jobs are read, and the lines of the completed ones written, by whoever works on them: see
`bucketq.segment_claim` and `bucketq.side_objects`.
"""

from collections.abc import Iterable

from bucketq.errors import ConfigurationError
from bucketq.ledger import StagedPart
from bucketq.operation import (
    DequeueSegment,
    HeartbeatSegment,
    Operation,
    ReleaseSegment,
    SettleSegment,
    Single,
)
from bucketq.queue.channel import Channel
from bucketq.segment import Segment
from bucketq.segment_claim import SegmentClaim


class Segments(Channel):
    """Working on whole segments."""

    async def dequeue_segment(self, entrypoint: str, worker: str | None = None) -> SegmentClaim | None:
        """Claim all jobs of a segment of the backlog, if they are next in line.

        None says that the next jobs cannot be taken that way, or that there are none: take them
        with `dequeue`. That is so where the next ones stand in queue.json, where one of the
        segment was tried before or is not plain (a key, tenant, timeout, …), and while there are
        limits, pauses or tenants.

            claim = await q.dequeue_segment("resize")
        """
        if not isinstance(entrypoint, str):
            raise ConfigurationError(f"a segment has the jobs of one entrypoint, not of {entrypoint!r}")
        operation = DequeueSegment(entrypoint, self._mint.token(), self._clock.now(), worker or self.worker)
        claim: SegmentClaim | None = await self._submit(operation, if_abandoned=_release)
        return claim

    async def heartbeat_segment(self, claim: SegmentClaim) -> None:
        """The worker is alive and busy with the segment. Raises ClaimLostError."""
        await self._submit(HeartbeatSegment(claim.claim, self._clock.now()))

    async def settle_segment(
        self,
        claim: SegmentClaim,
        completed: Iterable[StagedPart] = (),
        failed: Iterable[Single] = (),
        rest: Iterable[Segment] = (),
    ) -> None:
        """All jobs of the segment are accounted for, and that is one commit.

        `completed` are staged objects with lines for the archive, `failed` outcomes of single jobs
        (with a heartbeat one stays claimed, by itself), and `rest` segments with jobs that were not
        begun: those go back to their places, at no cost. Raises ClaimLostError, and
        ConfigurationError if these are not as many jobs as the claim has, or a failed one is not of
        them; then nothing is changed. The objects are not read: that no job is in two of them,
        and another in none, is up to whoever wrote them.
        """
        now = self._clock.now()
        operation = SettleSegment(claim.claim, tuple(completed), tuple(failed), tuple(rest), now)
        await self._submit(operation)

    async def release_segment(self, claim: SegmentClaim) -> None:
        """The worker leaves, and gives all jobs back: it costs them nothing.

        If it does not hold them any more, nothing happens.
        """
        await self._submit(ReleaseSegment(claim.claim))


def _release(claim: SegmentClaim | None) -> Operation | None:
    return ReleaseSegment(claim.claim) if claim is not None else None
