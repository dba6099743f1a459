"""The queue.json of both osqueue systems -> QueueState: TypeScript (`createdAt`) and Go (`created_at`).

Neither has a version. Jobs in progress wait again, because their workers belong to the other system.
"""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.errors import CorruptStateError
from bucketq.job import Count, Job, Moment
from bucketq.jobline import UNREADABLE
from bucketq.new_job import MAX_ATTEMPTS
from bucketq.state import QueueState

# A job without a type, as in REST.
_ENTRYPOINT = "default"
_LAST_MS = 253_402_300_799_999


class _Job(msgspec.Struct):
    id: Annotated[str, Meta(min_length=1)]
    status: Literal["unclaimed", "in_progress"]
    attempts: Count = 0
    # Of the Go system.
    data: bytes | None = None
    created_at: Moment | None = None
    # Of the TypeScript system.
    type: str | None = None
    payload: Raw = Raw()
    created_at_ms: Annotated[int, Meta(ge=0, le=_LAST_MS)] | None = msgspec.field(
        name="createdAt", default=None
    )
    max_attempts: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = msgspec.field(
        name="maxAttempts", default=None
    )

    def job(self, sequence: int) -> Job:
        if self.created_at is not None:
            # There, attempts have no limit, so those so far don't count.
            return Job(
                id=self.id,
                entrypoint=_ENTRYPOINT,
                payload=self.data or b"",
                created_at=self.created_at.astimezone(UTC),
                sequence=sequence,
            )
        if self.created_at_ms is None:
            raise msgspec.ValidationError(f"job {self.id} has neither `createdAt` nor `created_at`")
        # There, an attempt ends early only by a timeout, as a crash does here.
        crashes = max(0, self.attempts - (self.status == "in_progress"))
        limit = self.max_attempts or MAX_ATTEMPTS
        return Job(
            id=self.id,
            entrypoint=self.type or _ENTRYPOINT,
            payload=bytes(self.payload),
            created_at=datetime.fromtimestamp(self.created_at_ms / 1000, UTC),
            sequence=sequence,
            attempts=crashes,
            crashes=crashes,
            max_attempts=limit,
            max_crashes=limit,
        )


class _Marks(msgspec.Struct):
    broker: str | None
    jobs: Raw
    version: Raw | UnsetType = UNSET


def is_osqueue(content: bytes) -> bool:
    """Whether this is the queue.json of an osqueue system.

    >>> is_osqueue(b'{"broker":null,"jobs":[]}'), is_osqueue(b'{"version":1,"jobs":[]}')
    (True, False)
    """
    try:
        return msgspec.json.decode(content, type=_Marks).version is UNSET
    except UNREADABLE:
        return False


def decode_osqueue(content: bytes, name: str) -> QueueState:
    """Read the queue.json of an osqueue system. Raises CorruptStateError, which calls it `name`."""
    try:
        # Go writes null for an empty list.
        stored = msgspec.json.decode(msgspec.json.decode(content, type=_Marks).jobs, type=list[_Job] | None)
        jobs = {one.id: one.job(place) for place, one in enumerate(stored or (), 1)}
    except (*UNREADABLE, OverflowError) as error:
        raise CorruptStateError(f"{name} is not a readable queue of osqueue: {error}") from error
    return QueueState(jobs.values(), version=1, sequence=len(stored or ()), enqueued_total=len(jobs))
