"""Job, JobStatus and Claim: the values that everything else passes around."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from bucketq.errors import ConfigurationError, PayloadError
from bucketq.object_name import PayloadName
from bucketq.trace_context import Traceparent, Tracestate

# What a message can hold. New jobs have smaller numbers, so that none that grows becomes unreadable.
INTEGER_MAX = 2**63 - 1
Whole = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
# Older brokers took any. A wrong one is found out by whoever reads the object.
Size = Annotated[int, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(ge=0)]

# Enough of an id for its time stamp, if it is a UUIDv7.
_ID_PREFIX = 13
_FIRST_YEAR, _LAST_YEAR = 2020, 2100


class JobStatus(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    # Its time has not come: it was enqueued for later, or is tried again later.
    SCHEDULED = "scheduled"
    # Other jobs have to be finished first.
    BLOCKED = "blocked"
    IN_PROGRESS = "in_progress"
    DEAD = "dead"

    # An Enum's own is slow, and statuses are keys of what every operation looks at.
    __hash__ = str.__hash__


# The error of an attempt that ended because its worker fell silent.
STALE = "stale: no heartbeat from its worker"
# How that of one begins which took too long.
TIMED_OUT = "timed out after "


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    # Its worker died, or was cut off: it fell silent.
    STALE = "stale"
    # Its worker left, and gave it back.
    RELEASED = "released"
    CANCELLED = "cancelled"


class IfDead(StrEnum):
    """What becomes of a job when one that it waits for does not succeed."""

    CANCEL = "cancel"
    RUN = "run"


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One worker's try at a job."""

    claimed_at: Moment
    ended_at: Moment
    outcome: Outcome
    worker: str | None = None
    error: str | None = None
    # Where it happened, shortened.
    trace: str | None = None


class Job(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"sequence": "seq"}, gc=False
):
    """A unit of work. A change makes a new one; what you hold never changes under you.

    A payload that is too large for queue.json is in an object: `payload_object` names it and
    `payload_size` says how long it is. `dequeue` brings it; after `find` and `read_state`,
    `payload` is empty and `fetch_payload` gets it.
    """

    id: Annotated[str, Meta(min_length=1)]
    entrypoint: str
    payload: bytes = b""
    payload_object: PayloadName | None = None
    payload_size: Size = 0
    status: JobStatus = JobStatus.QUEUED
    priority: Whole = 0
    created_at: Moment
    heartbeat_at: Moment | None = None
    # The place in line within a priority, given by the commit that enqueued the job.
    sequence: Count = 0
    attempts: Count = 0
    max_attempts: Count = 3
    claimed_at: Moment | None = None
    token: str | None = None
    # Who holds the job; by default the host's name and the process id.
    worker: str | None = None
    error: str | None = None
    # The attempts that did not succeed; of very many the first and the last ones.
    history: tuple[Attempt, ...] = ()
    # Attempts that ended because the worker died; they do not count against `max_attempts`.
    # A new job gets the `max_crashes` of `crashes_for`; the default is that of its line.
    crashes: Count = 0
    max_crashes: Count = 3
    # Not before this, not after that, and each attempt for so long at most; 0 is no limit.
    run_at: Moment | None = None
    expires_at: Moment | None = None
    timeout_s: Seconds = 0.0
    # No two jobs with the same key wait or run, nor for so long after one is finished.
    key: str | None = None
    key_for_s: Seconds = 0.0
    # Tenants take turns; `turn` is this job's.
    tenant: str | None = None
    turn: Count = 0
    # Of jobs with the same limit key, so many run at the same time.
    limit_key: str | None = None
    # The jobs that it still waits for, what becomes of it if one does not succeed, and its batch.
    after: tuple[str, ...] = ()
    if_dead: IfDead = IfDead.CANCEL
    batch: str | None = None
    # What its worker has said of it.
    progress: float | None = None
    note: str | None = None
    is_cancelled: bool = False
    # The dead job that this one does again.
    redrive_of: str | None = None
    # The trace of whoever enqueued it; see bucketq.trace_context.
    traceparent: Traceparent | None = None
    tracestate: Tracestate | None = None

    @property
    def failures(self) -> int:
        """How many attempts have failed, or may still: all but those that ended with their worker."""
        return self.attempts - self.crashes

    def json(self, type: Any = Any) -> Any:  # noqa: A002 (msgspec's own name for it)
        """Decode a JSON payload, into `type` if one is given. Raises PayloadError.

        >>> from datetime import UTC
        >>> job = Job(id="1", entrypoint="mail", payload=b'{"to":"a"}', created_at=datetime.now(UTC))
        >>> job.json()
        {'to': 'a'}
        """
        return payload_json(self, type)


class Claim(NamedTuple):
    """One worker's hold on a job. Without a token it stands for whoever holds the job."""

    job_id: str
    token: str | None = None

    @classmethod
    def of(cls, job: "Job | Claim | str") -> "Claim":
        """The claim that a dequeued job carries, or the unfenced claim on an id."""
        if isinstance(job, Job):
            return cls(job.id, job.token)
        if isinstance(job, Claim):
            return job
        if isinstance(job, str):
            return cls(job)
        raise ConfigurationError(
            f"a job is given as the Job that dequeue returned, or as its id, not as {type(job).__name__}"
        )


def id_range(job_ids: Iterable[str]) -> tuple[str, str]:
    """The beginnings of the smallest and the largest of some ids, for `is_within`.

    >>> id_range(["019b76da-a800-7a06-9c99-d2955c30ed8a", "019b76da-a801-7a06-9c99-d2955c30ed8a"])
    ('019b76da-a800', '019b76da-a801')
    """
    beginnings = [job_id[:_ID_PREFIX] for job_id in job_ids]
    return min(beginnings), max(beginnings)


def is_within(ids: tuple[str, str], job_id: str) -> bool:
    """False if the id is certainly not of such a range."""
    return ids[0] <= job_id[:_ID_PREFIX] <= ids[1]


def time_within(ids: tuple[str, str]) -> datetime | None:
    """When the first id of such a range was made; None if they are of another kind, as jqueue's are.

    >>> time_within(("019b76da-a800", "019b76da-a801"))
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> time_within(("001fe3b5-d344", "fecc037e-fe33"))
    """
    try:
        first, last = (datetime.fromtimestamp(int(one.replace("-", ""), 16) / 1000, UTC) for one in ids)
    except (ValueError, OverflowError):
        return None
    # The beginning of an id does not tell its kind, but by chance it is no time of ours.
    return first if first.year >= _FIRST_YEAR and last.year < _LAST_YEAR else None


class HasPayload(Protocol):
    """A job, live or archived."""

    @property
    def id(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def payload_object(self) -> str | None: ...


def payload_json(job: HasPayload, type: Any) -> Any:  # noqa: A002 (as above)
    """The payload of a job, decoded from JSON into a type. Raises PayloadError."""
    if job.payload_object is not None and not job.payload:
        raise PayloadError(
            f"the payload of job {job.id} is in an object of its own; get it with fetch_payload"
        )
    if not job.payload:
        raise PayloadError(f"job {job.id} has no payload")
    try:
        return msgspec.json.decode(job.payload, type=type)
    except msgspec.MsgspecError as error:
        raise PayloadError(f"the payload of job {job.id} does not fit: {error}") from error
