"""Operations on claims of whole segments. Such a claim names the segment where others name a job."""

from contextlib import suppress
from datetime import datetime

import msgspec

from bucketq.errors import ClaimLostError
from bucketq.job import Claim
from bucketq.ledger import StagedPart
from bucketq.operation.claims import Bury, Crash, Heartbeat, Nack
from bucketq.segment import Segment
from bucketq.segment_claim import SegmentClaim
from bucketq.state import QueueState

# What becomes of a job by itself. With a heartbeat it stays claimed, and is settled later like any other.
Single = Nack | Bury | Crash | Heartbeat


class DequeueSegment(msgspec.Struct, frozen=True, gc=False):
    """Claim all jobs of a segment, if they are next in line and plain; None if they are not."""

    entrypoint: str
    token: str
    now: datetime
    worker: str | None = None

    def __call__(self, state: QueueState) -> SegmentClaim | None:
        state.fire(self.now)
        state.wake(self.now, self.entrypoint)
        segment = state.claim_segment(self.entrypoint, self.token, self.now, self.worker)
        return SegmentClaim(segment, state.version) if segment is not None else None


class HeartbeatSegment(msgspec.Struct, frozen=True, gc=False):
    """Say that the worker of a segment lives."""

    claim: Claim
    now: datetime

    def __call__(self, state: QueueState) -> None:
        state.heartbeat_segment(self.claim, self.now)


class SettleSegment(msgspec.Struct, frozen=True, gc=False):
    """Account for all jobs of a segment: staged lines of completed ones, single outcomes, and the rest."""

    claim: Claim
    completed: tuple[StagedPart, ...]
    failed: tuple[Single, ...]
    rest: tuple[Segment, ...]
    now: datetime

    def __call__(self, state: QueueState) -> None:
        failed = [outcome.claim.job_id for outcome in self.failed]
        state.settle_segment(self.claim, self.completed, failed, self.rest, self.now)
        for outcome in self.failed:
            outcome(state)


class ReleaseSegment(msgspec.Struct, frozen=True, gc=False):
    """Undo the claim on a segment, if it still holds."""

    claim: Claim

    def __call__(self, state: QueueState) -> None:
        with suppress(ClaimLostError):
            state.release_segment(self.claim)
