"""Access: who asks something of a broker, and what they may do.

    viewer     look at everything but the tokens of claims
    producer   … and add jobs, and cancel them
    worker     … and claim jobs, settle the claims whose token it holds, and schedule its handlers
    admin      everything

A caller may have several roles. Whoever has any of them is a viewer too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec.structs import replace

from bucketq.errors import ForbiddenError
from bucketq.job import Claim, Job
from bucketq.operation import (
    Ack,
    AckMany,
    Bury,
    Count,
    Crash,
    Dequeue,
    DequeueSegment,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    HeartbeatMany,
    HeartbeatSegment,
    LookUp,
    Nack,
    Operation,
    Refresh,
    Release,
    ReleaseSegment,
    SettleSegment,
    Transact,
    claims_of,
)
from bucketq.operation.limits import ReadLimits
from bucketq.operation.schedules import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel
from bucketq.segment import Segment


class Role(StrEnum):
    """What somebody is to a queue."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    WORKER = "worker"
    ADMIN = "admin"


@dataclass(frozen=True)
class Caller:
    """Whoever asks: the name of their token, its roles, and the address that they ask from.

    >>> Caller("web", frozenset({Role.PRODUCER})).may(Role.VIEWER)
    True
    """

    name: str
    roles: frozenset[Role]
    peer: str = field(default="", compare=False)

    @property
    def client(self) -> str:
        """Whose requests are counted together: those with one token, or from one address."""
        return self.name or self.peer

    def may(self, role: Role) -> bool:
        """Whether they are this, or more."""
        return role in self.roles or Role.ADMIN in self.roles or (role is Role.VIEWER and bool(self.roles))

    def need(self, role: Role) -> None:
        """Raise ForbiddenError unless they are this, or more."""
        if not self.may(role):
            has = ", ".join(sorted(self.roles))
            raise ForbiddenError(f"this needs the role {role.value}; the token {self.name!r} has: {has}")

    def need_to_create(self) -> None:
        """Raise ForbiddenError unless they are a worker or a producer: both create objects."""
        if not self.may(Role.WORKER):
            self.need(Role.PRODUCER)

    def check(self, operation: Operation) -> None:
        """Raise ForbiddenError if they may not have this applied."""
        if isinstance(operation, Transact):
            for part in operation.operations:
                self.check(part)
            return
        # Each worker makes those of its handlers when it starts. Others enqueue what their maker chooses.
        if isinstance(operation, PutSchedule) and operation.schedule.is_of_handler:
            self.need_to_create()
            return
        self.need(_ROLES.get(type(operation), Role.ADMIN))
        for claim in claims_in(operation):
            self.check_claim(claim)

    def limited(self, operation: Operation) -> Operation:
        """The operation, as far as their roles go: a worker's schedule takes no producer's place."""
        if isinstance(operation, PutSchedule) and not self.may(Role.PRODUCER):
            return replace(operation, of_worker=True)
        return operation

    def check_claim(self, claim: Claim) -> None:
        """Raise ForbiddenError for a claim without its token, which could be anybody's."""
        if claim.token is None and not self.may(Role.ADMIN):
            raise ForbiddenError("a worker settles its own claims: give the token that came with the job")

    def shown(self, job: Job) -> Job:
        """A job as they may see it: whoever has a claim's token can settle it."""
        return job if job.token is None or self.may(Role.ADMIN) else replace(job, token=None)

    def shown_segment(self, segment: Segment) -> Segment:
        """A segment as they may see it."""
        if segment.hold is None or self.may(Role.ADMIN):
            return segment
        return replace(segment, hold=replace(segment.hold, token=HIDDEN))


# Stands where something must, and the truth is not told.
HIDDEN = "hidden"
# Where there are no tokens everybody may do everything.
ANYBODY = Caller("", frozenset({Role.ADMIN}))

# What is not here is an admin's.
_ROLES: dict[type, Role] = {
    **dict.fromkeys((Find, FindBatch, LookUp, Count, Refresh, ListSchedules, ReadLimits), Role.VIEWER),
    **dict.fromkeys(
        (Enqueue, EnqueueBatch, EnqueueSegments, Cancel, PutSchedule, RemoveSchedule), Role.PRODUCER
    ),
    **dict.fromkeys(
        (Dequeue, Ack, AckMany, Nack, Bury, Crash, Release, Heartbeat, HeartbeatMany), Role.WORKER
    ),
    **dict.fromkeys((DequeueSegment, HeartbeatSegment, SettleSegment, ReleaseSegment), Role.WORKER),
}


def claims_in(operation: Operation) -> Iterator[Claim]:
    """Every claim that an operation names."""
    match operation:
        case Release():
            yield from operation.claims
        case Crash() | ReleaseSegment():
            yield operation.claim
        case _:
            yield from claims_of(operation)
