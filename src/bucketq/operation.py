"""The operations on a queue, as values.

An operation carries everything that it needs, ids and times included, so applying it
again to a fresher state is a true replay. Calling one with a state runs a short script
of that state's transitions.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from bucketq.errors import JobNotFoundError
from bucketq.job import Claim, Job
from bucketq.state import QueueState


class Refresh(msgspec.Struct, frozen=True, gc=False):
    """Do nothing, on a state that is known to be current."""

    def __call__(self, state: QueueState) -> None:
        return None


class Enqueue(msgspec.Struct, frozen=True, gc=False):
    """Add jobs, in this order."""

    jobs: tuple[Job, ...]

    def __call__(self, state: QueueState) -> list[Job]:
        return [state.enqueue(job) for job in self.jobs]


class Dequeue(msgspec.Struct, frozen=True, gc=False):
    """Claim up to `batch_size` waiting jobs."""

    entrypoint: str | None
    batch_size: int
    token: str
    now: datetime

    def __call__(self, state: QueueState) -> list[Job]:
        claimed: list[Job] = []
        while len(claimed) < self.batch_size:
            job = state.dequeue(self.entrypoint, self.token, self.now)
            if job is None:
                break
            claimed.append(job)
        return claimed


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Finish one job."""

    claim: Claim

    def __call__(self, state: QueueState) -> None:
        state.ack(self.claim)


class AckMany(msgspec.Struct, frozen=True, gc=False):
    """Finish every job whose claim still holds; answer with an error for each other one."""

    claims: tuple[Claim, ...]

    def __call__(self, state: QueueState) -> list[JobNotFoundError]:
        refused = []
        for claim in self.claims:
            try:
                state.ack(claim)
            except JobNotFoundError as error:
                refused.append(error)
        return refused


class Nack(msgspec.Struct, frozen=True, gc=False):
    """Give one job back."""

    claim: Claim
    error: str | None

    def __call__(self, state: QueueState) -> Job:
        return state.nack(self.claim, self.error)


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Say that the worker of one job lives."""

    claim: Claim
    now: datetime

    def __call__(self, state: QueueState) -> None:
        state.heartbeat(self.claim, self.now)


class Release(msgspec.Struct, frozen=True, gc=False):
    """Undo claims that never reached a worker."""

    claims: tuple[Claim, ...]

    def __call__(self, state: QueueState) -> None:
        for claim in self.claims:
            state.release(claim)


class RequeueSilent(msgspec.Struct, frozen=True, gc=False):
    """Take jobs from the workers whose last heartbeat is older than a time."""

    before: datetime

    def __call__(self, state: QueueState) -> int:
        silent = [
            job
            for job in state.in_progress_jobs()
            if job.heartbeat_at is None or job.heartbeat_at < self.before
        ]
        for job in silent:
            state.requeue_stale(Claim.of(job))
        return len(silent)


class Transact(msgspec.Struct, frozen=True, gc=False):
    """Several operations that land together, or none of them."""

    operations: "tuple[Operation, ...]"

    def __call__(self, state: QueueState) -> None:
        for operation in self.operations:
            operation(state)


Operation = (
    Refresh | Enqueue | Dequeue | Ack | AckMany | Nack | Heartbeat | Release | RequeueSilent | Transact
)


def claims_of(operation: Operation) -> Iterator[Claim]:
    """The claims by which the operation's caller speaks, as a sign that a worker lives."""
    match operation:
        case Ack() | Nack() | Heartbeat():
            yield operation.claim
        case AckMany():
            yield from operation.claims
        case Transact():
            for part in operation.operations:
                yield from claims_of(part)
