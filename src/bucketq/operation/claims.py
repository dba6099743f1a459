"""Operations on claims: taking jobs, keeping them, and letting go of them."""

from contextlib import suppress
from datetime import datetime, timedelta
from itertools import repeat

import msgspec

from bucketq.backlog import SegmentNeededError
from bucketq.errors import JobNotFoundError, QueueFullError
from bucketq.expiry import MoreExpiredError
from bucketq.job import Claim, Job
from bucketq.state import QueueState
from bucketq.wanted import Wanted


class Dequeue(msgspec.Struct, frozen=True, gc=False):
    """Claim up to `batch_size` waiting jobs. None if there may be some, and the caller should ask again."""

    wanted: Wanted
    batch_size: int
    token: str
    now: datetime
    worker: str | None = None
    # Whether jobs in segments are left there.
    at_hand: bool = False

    def __call__(self, state: QueueState) -> list[Job] | None:
        state.fire(self.now)
        state.wake(self.now, self.wanted)
        backlog = state.backlog
        claimed: list[Job] = []
        while len(claimed) < self.batch_size:
            if self.at_hand and state.is_next_in_segment(self.wanted):
                break
            try:
                job = state.dequeue(self.wanted, self.token, self.now, self.worker)
            except MoreExpiredError:
                return claimed or None
            except (SegmentNeededError, QueueFullError) as error:
                if isinstance(error, SegmentNeededError) and not claimed and state.backlog is not backlog:
                    # Jobs that may not begin came in from segments, which may not be within reach again.
                    return None
                if not claimed or (isinstance(error, SegmentNeededError) and can_wait_for(error, state)):
                    raise
                break
            if job is None:
                break
            claimed.append(job)
        return claimed


class Wake(msgspec.Struct, frozen=True, gc=False):
    """Let due jobs stand in line, as far as their segments are within reach.

    A dequeue that needs another segment is undone, and tried again with the same `now`. This is committed
    meanwhile. So each segment with due jobs is needed only once, and jobs that become due later do not count.
    """

    wanted: Wanted
    now: datetime

    def __call__(self, state: QueueState) -> None:
        with suppress(SegmentNeededError):
            state.wake(self.now, self.wanted)


def can_wait_for(error: SegmentNeededError, state: QueueState) -> bool:
    """Whether an operation that has made progress should wait for another segment.

    Else it is answered without: the segments that it has used may not be within reach again.
    """
    return state.shelf.has_room_for(error.segments[0]) and state.shelf.findings.may_wait


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Finish one job; its result, if any, is JSON already."""

    claim: Claim
    now: datetime
    result: bytes = b""

    def __call__(self, state: QueueState) -> None:
        state.ack(self.claim, self.now, self.result)


class AckMany(msgspec.Struct, frozen=True, gc=False):
    """Finish every job whose claim still holds; answer with an error for each other one."""

    claims: tuple[Claim, ...]
    now: datetime
    # One for each claim, or none at all.
    results: tuple[bytes, ...] = ()

    def __call__(self, state: QueueState) -> list[JobNotFoundError]:
        refused = []
        for claim, result in zip(self.claims, self.results or repeat(b""), strict=False):
            try:
                state.ack(claim, self.now, result)
            except JobNotFoundError as error:
                refused.append(error)
        return refused


class Nack(msgspec.Struct, frozen=True, gc=False):
    """Give one job back that failed, to be tried again now or later."""

    claim: Claim
    error: str | None
    now: datetime
    retry_in_s: float = 0.0
    trace: str | None = None

    def __call__(self, state: QueueState) -> Job:
        retry_at = self.now + timedelta(seconds=self.retry_in_s)
        return state.nack(self.claim, self.error, self.now, retry_at, self.trace)


class Bury(msgspec.Struct, frozen=True, gc=False):
    """Declare a job dead that can never succeed."""

    claim: Claim
    error: str
    now: datetime
    trace: str | None = None

    def __call__(self, state: QueueState) -> Job:
        return state.bury(self.claim, self.error, self.now, self.trace)


class Crash(msgspec.Struct, frozen=True, gc=False):
    """Give one job back whose worker died."""

    claim: Claim
    now: datetime

    def __call__(self, state: QueueState) -> Job:
        return state.requeue_stale(self.claim, self.now)


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Say that the worker of one job lives."""

    claim: Claim
    now: datetime
    progress: float | None = None
    note: str | None = None

    def __call__(self, state: QueueState) -> None:
        state.heartbeat(self.claim, self.now, self.progress, self.note)

    def after(self, earlier: "Heartbeat | None") -> "Heartbeat":
        """This one, with what an earlier one said and this one does not."""
        if earlier is None or earlier.claim != self.claim:
            return self
        progress = earlier.progress if self.progress is None else self.progress
        note = earlier.note if self.note is None else self.note
        return Heartbeat(self.claim, self.now, progress, note)


class HeartbeatMany(msgspec.Struct, frozen=True, gc=False):
    """Say that the workers of many jobs live; answer with an error for each claim that does not hold."""

    beats: tuple[Heartbeat, ...]

    def __call__(self, state: QueueState) -> list[JobNotFoundError]:
        refused = []
        for beat in self.beats:
            try:
                beat(state)
            except JobNotFoundError as error:
                refused.append(error)
        return refused


class Release(msgspec.Struct, frozen=True, gc=False):
    """Undo claims whose worker left, or (without a time) never heard of them."""

    claims: tuple[Claim, ...]
    left_at: datetime | None = None

    def __call__(self, state: QueueState) -> None:
        for claim in self.claims:
            with suppress(JobNotFoundError):
                state.release(claim, self.left_at)


class RequeueSilent(msgspec.Struct, frozen=True, gc=False):
    """Take jobs from the workers whose last heartbeat is older than a time."""

    before: datetime
    now: datetime

    def __call__(self, state: QueueState) -> int:
        silent = [
            job
            for job in state.in_progress_jobs()
            if job.heartbeat_at is None or job.heartbeat_at < self.before
        ]
        for job in silent:
            state.requeue_stale(Claim.of(job), self.now)
        taken = len(silent)
        for claim, (segment, hold) in state.backlog.held().items():
            if hold.heartbeat_at < self.before:
                state.requeue_stale_segment(claim, self.now)
                taken += segment.count
        return taken
