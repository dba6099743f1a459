"""Inspection: operations that come from another process, looked at before they are applied.

A client in Python has checked them itself; but whoever writes to a port need not be one.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from bucketq.broker.access import claims_in
from bucketq.duration import seconds_of
from bucketq.errors import ConfigurationError, StorageError
from bucketq.failure import error_text
from bucketq.job import Job, JobStatus
from bucketq.limits import check_limit
from bucketq.new_job import NAME_MAX, check_name, check_new_job
from bucketq.object_name import PAYLOADS, is_payload_name
from bucketq.operation import (
    Ack,
    AckMany,
    Adopt,
    Bury,
    Dequeue,
    DequeueSegment,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    HeartbeatMany,
    LookUp,
    Nack,
    Operation,
    SettleSegment,
    Transact,
)
from bucketq.operation.adoption import check_holding
from bucketq.operation.limits import Pause, Resume, SetLimit
from bucketq.operation.schedules import PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.progress import check_progress
from bucketq.schedule import check_schedule
from bucketq.segment import Key, Segment, is_plain, key_of
from bucketq.transaction import check_results, result_json
from bucketq.wanted import Wanted, names_of, wanted_of

# Of a segment's entry: no beginning of an id is longer.
_ID_BEGINNING_MAX = 13


def inspected(operation: Operation) -> Operation:
    """The operation, if it can be applied without harm; it comes from another process."""
    for claim in claims_in(operation):
        # What is refused is kept with its message, and written with every commit.
        check_length("a job's id", claim.job_id)
        check_length("a token", claim.token or "?")
    match operation:
        case Enqueue():
            for job in operation.jobs:
                if job.batch is not None:
                    raise ConfigurationError("jobs of a batch come all together, with the one that follows")
                _check_job(job)
        case EnqueueSegments():
            for segment in operation.segments:
                check_name("an entrypoint", segment.entrypoint)
        case EnqueueBatch():
            _check_batch(operation)
        case Adopt():
            _check_adoption(operation)
        case Heartbeat():
            check_progress(operation.progress, operation.note)
        case HeartbeatMany():
            for beat in operation.beats:
                check_progress(beat.progress, beat.note)
        case Dequeue() | DequeueSegment():
            check_wanted(operation.wanted if isinstance(operation, Dequeue) else operation.entrypoint)
            check_length("a token", operation.token)
            check_length("a worker's name", operation.worker or "?")
        case Find() | LookUp():
            check_length("a job's id", operation.job_id)
        case FindBatch():
            check_length("a batch's id", operation.batch_id)
        case RemoveSchedule():
            check_length("a schedule's name", operation.name)
        case SettleSegment():
            return replace(operation, failed=tuple(map(inspected, operation.failed)))
        case Ack() if operation.result:
            return replace(operation, result=result_json(msgspec.Raw(operation.result)))
        case AckMany() if operation.results:
            check_results(operation.claims, operation.results)
            checked = (result_json(msgspec.Raw(result)) if result else b"" for result in operation.results)
            return replace(operation, results=tuple(checked))
        case Nack():
            seconds_of(operation.retry_in_s, "retry_in")
            return replace(operation, error=error_text(operation.error))
        case Bury():
            return replace(operation, error=error_text(operation.error) or "")
        case Cancel() | Discard():
            check_length("a job's id", operation.job_id)
        case Redrive():
            check_length("a job's id", operation.job_id)
            check_length("a job's id", operation.new_id)
        case SettleMany():
            for part in operation.parts:
                inspected(part)
        case PutSchedule():
            check_schedule(operation.schedule)
        case Pause() | Resume() if operation.entrypoint is not None:
            check_name("an entrypoint", operation.entrypoint)
        case SetLimit():
            check_limit(operation.entrypoint, operation.limit_key, operation.limit)
        case Transact():
            if not all(isinstance(part, Enqueue | Ack | Nack) for part in operation.operations):
                raise ConfigurationError("a transaction holds enqueues, acks and nacks")
            return Transact(tuple(map(inspected, operation.operations)))
    return operation


def inspect_segment(
    segment: Segment, jobs: Iterable[Job], batch: str | None, last_place: int, payloads: dict[str, int]
) -> Iterator[None]:
    """Look at the jobs of a new segment that a client wrote, one by one.

    Raises ConfigurationError unless each is a new job of this segment and this batch, in order, without a
    unique key, and the entry describes them. Their places and turns count from 1 to `last_place`. The objects
    that they name are added to `payloads`, with their sizes.
    """
    if max(map(len, segment.ids)) > _ID_BEGINNING_MAX:
        raise ConfigurationError(f"the ids of {segment.name} have up to {_ID_BEGINNING_MAX} characters")
    last: Key | None = None
    places, before = set[int](), len(payloads)
    for job in jobs:
        _check_job(job)
        new = replace(
            job,
            entrypoint=segment.entrypoint,
            status=segment.status,
            batch=batch,
            key=None,
            limit_key=job.limit_key if segment.limit_key is None else segment.limit_key,
            tenant=job.tenant if segment.tenant is None else segment.tenant,
            attempts=0,
            crashes=0,
            history=(),
            error=None,
            token=None,
            worker=None,
            claimed_at=None,
            heartbeat_at=None,
            progress=None,
            note=None,
            is_cancelled=False,
        )
        is_due = job.status is not JobStatus.SCHEDULED or job.run_at is not None
        is_as_told = segment.may_hold(job.id) and (is_plain(job) or not segment.plain)
        key = key_of(job)
        has_place = 1 <= job.sequence <= last_place and job.turn <= last_place and job.sequence not in places
        is_next = has_place and (last is None or key > last)
        is_twice = job.payload_object is not None and job.payload_object in payloads
        if job != new or not is_due or not is_as_told or not is_next or is_twice:
            raise ConfigurationError(
                f"job {job.id} in {segment.name} must be a new job of the segment, in its place, without a"
                " unique key, with a payload of its own. Nothing was changed."
            )
        last = key
        places.add(job.sequence)
        if job.payload_object is not None:
            payloads[job.payload_object] = job.payload_size
        yield
    if len(payloads) - before != segment.payloads:
        raise ConfigurationError(
            f"the entry of {segment.name} must count {len(payloads) - before} payloads, got"
            f" {segment.payloads}. Nothing was changed."
        )


def check_sizes(payloads: Iterable[tuple[str, int]], sizes: Mapping[str, int]) -> None:
    """Raise an error unless each payload is an object of its size; `sizes` has those there are."""
    for name, size in payloads:
        if name not in sizes:
            # An honest client created it, but took so long that it was collected.
            raise StorageError(
                f"payload_object {name} was not found. It was never created, or was collected as garbage"
                " (collect_after_s). Nothing was changed. Create the object, then the job that names it."
            )
        if sizes[name] != size:
            raise ConfigurationError(
                f"payload_object {name} must be an object of payload_size {size}, found {sizes[name]}"
            )


def check_wanted(wanted: Wanted) -> None:
    """Raise ConfigurationError for entrypoints that no job has."""
    # No new job has such a name, and a broker remembers for what it was asked.
    for name in names_of(wanted_of(wanted)):
        if len(name) > NAME_MAX:
            raise ConfigurationError(f"an entrypoint has up to {NAME_MAX} characters, not {len(name)}")


def _check_job(job: Job) -> None:
    check_length("a job's id", job.id)
    check_length("an entrypoint", job.entrypoint)
    if job.payload_object is not None and (job.payload or not is_payload_name(job.payload_object)):
        raise ConfigurationError(
            f"payload_object is the name of an object below {PAYLOADS}, of a job without a payload, not"
            f" {job.payload_object[:NAME_MAX]!r}"
        )
    check_new_job(job)


def _check_adoption(operation: Adopt) -> None:
    check_length("a load", operation.load)
    check_length("what was seen", operation.seen or "?")
    for holding in operation.holdings:
        check_holding(holding)
    for job in operation.jobs:
        _check_job(job)
    if any(job.status is JobStatus.IN_PROGRESS or job.token is not None for job in operation.jobs):
        raise ConfigurationError("jobs that run are not adopted: a worker of another queue holds them")


def _check_batch(operation: EnqueueBatch) -> None:
    then, part = operation.then, operation.part
    jobs = part.jobs if isinstance(part, Enqueue) else ()
    if isinstance(part, EnqueueSegments):
        inspected(part)
    if any(job.batch != then.id for job in (then, *jobs)):
        raise ConfigurationError("the batch of its jobs, and of the one that follows, is the id of that one")
    if then.after or then.key is not None:
        raise ConfigurationError("the job that follows a batch takes no after, and no key")
    inspected(Enqueue(tuple(replace(job, batch=None) for job in (then, *jobs))))


def check_length(what: str, name: str) -> None:
    """Raise ConfigurationError for a name that is empty or too long; it may be too long to be shown."""
    if not 1 <= len(name) <= NAME_MAX:
        raise ConfigurationError(f"{what} has from 1 to {NAME_MAX} characters, not {len(name)}")
