"""The lines of an export <-> what they stand for."""

from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from bucketq.batches import NamedBatch
from bucketq.codec import StoredBatch, encode_batch
from bucketq.duration import in_utc
from bucketq.errors import ConfigurationError, CorruptStateError, NewerFormatError
from bucketq.job import Count, Job, Moment
from bucketq.jobline import UNREADABLE, StoredJob, encode_job
from bucketq.limits import Limits
from bucketq.operation import Holding
from bucketq.schedule import Schedule, StoredSchedule, encode_schedule

FORMAT = 1


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: the format, and the queue as it was."""

    bucketq_export: Count
    version: Count = 0
    jobs: Count = 0
    exported_at: Moment | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line: how many there were."""

    jobs: Count
    finished: Count = 0


class Finished(NamedTuple):
    """A finished job, as the archive spells it."""

    line: bytes


Item = Holding | Finished | End


class _NamedBatch(StoredBatch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job: StoredJob | None = None
    finished: Raw = Raw()
    limits: Limits | None = None
    schedule: StoredSchedule | None = None
    batch: _NamedBatch | None = None
    end: End | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder().encode


def encode_line(item: Beginning | Item) -> bytes:
    """The line of something, without its end."""
    match item:
        case Job():
            return b'{"job":%b}' % encode_job(item)
        case Finished():
            return b'{"finished":%b}' % item.line
        case Limits():
            return b'{"limits":%b}' % _encode(item)
        case Schedule():
            return b'{"schedule":%b}' % encode_schedule(item)
        case NamedBatch():
            return b'{"batch":{"id":%b,%b}' % (_encode(item.id), encode_batch(item.batch)[1:])
        case End():
            return b'{"end":%b}' % _encode(item)
    return _encode(item)


def decode_line(line: bytes, where: str) -> Item:
    """What a line stands for. Raises CorruptStateError, which calls its place `where`."""
    try:
        read = _decode_line(line)
    except UNREADABLE as error:
        raise CorruptStateError(f"{where} is no line of an export: {error}") from error
    match read:
        case _Line(job=StoredJob() as job):
            return _in_utc(job.job(), where)
        case _Line(finished=finished) if bytes(finished):
            return Finished(bytes(finished))
        case _Line(limits=Limits() as limits):
            return limits
        case _Line(schedule=StoredSchedule() as schedule):
            return schedule.schedule()
        case _Line(batch=_NamedBatch() as batch):
            return NamedBatch(batch.id, batch.batch())
        case _Line(end=End() as end):
            return end
    raise CorruptStateError(f"{where} says nothing")


def _in_utc(job: Job, where: str) -> Job:
    """The job, its times as a queue keeps them. Raises CorruptStateError."""
    times = {"run_at": job.run_at, "expires_at": job.expires_at}
    try:
        return replace(
            job, **{name: in_utc(moment, name) for name, moment in times.items() if moment is not None}
        )
    except ConfigurationError as error:
        raise CorruptStateError(f"{where} has no job: {error}") from error


def begins_export(line: bytes, where: str) -> bool:
    """Whether this is the first line of an export. Raises NewerFormatError."""
    try:
        beginning = msgspec.json.decode(line, type=Beginning)
    except UNREADABLE:
        return False
    if beginning.bucketq_export > FORMAT:
        raise NewerFormatError(
            f"{where} is an export of format {beginning.bucketq_export}; this bucketq knows formats up to"
            f" {FORMAT}. Upgrade bucketq to read it."
        )
    return True
