"""ArchivedJob <-> its line of JSON in an archive object. An interface: readers outside rely on it.

    {"v":1,"id":"…","entrypoint":"mail","created_at":"…","claimed_at":"…","finished_at":"…",
     "worker":"web-3:4711","json":{"to":"alice"},"result":{"sent":true}}

The object is a JSON array, and each job one line of it. What has its default value is left out
(the status `completed`, 1 for `attempts_total`), and so is what the rest tells:
`first_claimed_at` where it is `claimed_at`, and the last of the attempts, which began with
`claimed_at`, ended with `finished_at` as `status` and `error` say, and was `worker`'s. So most
jobs need no `earlier_attempts`. A job that nobody held at its end has no `claimed_at`, and its
`earlier_attempts` are all. Payloads are spelt as in queue.json: under `json` if they are
JSON, else base64 under `payload`; a large one is named by `payload_object`. In an object that
several batches were compacted into, `batch` comes last in each line: the version that sealed it.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from bucketq.archive_name import ARCHIVE, hour_of
from bucketq.errors import CorruptStateError
from bucketq.job import STALE, TIMED_OUT, Attempt, Count, Job, Moment, Outcome, Size, payload_json
from bucketq.jobline import UNREADABLE, is_json_line

FORMAT = 1
# The longest result that a job may have.
RESULT_BYTES_MAX = 64 * 1024


class FinishedStatus(StrEnum):
    """How a job's life ended."""

    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    # Its time was over before it began.
    EXPIRED = "expired"


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is finished, with its history.

    `attempts` holds the attempts in order, with how each ended. Of very many some in the
    middle are left out; `attempts_total` counts them all. One that nobody ever claimed, or
    that waited when it ended, has no `claimed_at`.
    """

    id: str
    entrypoint: str
    status: FinishedStatus
    priority: int
    created_at: datetime
    # None if nobody ever claimed it, or nobody held it at its end.
    first_claimed_at: datetime | None
    claimed_at: datetime | None
    finished_at: datetime
    attempts: tuple[Attempt, ...]
    attempts_total: int
    worker: str | None
    error: str | None
    payload: bytes
    payload_object: str | None
    payload_size: int
    result: Any
    # What was asked of it, as of `Job`.
    run_at: datetime | None = None
    key: str | None = None
    tenant: str | None = None
    limit_key: str | None = None
    job_batch: str | None = None
    redrive_of: str | None = None
    traceparent: str | None = None

    def json(self, type: Any = Any) -> Any:  # noqa: A002 (as Job.json)
        """Decode a JSON payload, into `type` if one is given. Raises PayloadError."""
        return payload_json(self, type)


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    # Without a default it is never left out.
    v: Count
    id: str
    entrypoint: str
    status: FinishedStatus = FinishedStatus.COMPLETED
    priority: int = 0
    created_at: Moment
    first_claimed_at: Moment | None = None
    claimed_at: Moment | None = None
    finished_at: Moment
    earlier_attempts: tuple[Attempt, ...] = ()
    attempts_total: Count = 1
    worker: str | None = None
    error: str | None = None
    payload: bytes = b""
    payload_object: str | None = None
    payload_size: Size = 0
    run_at: Moment | None = None
    key: str | None = None
    tenant: str | None = None
    limit_key: str | None = None
    # `batch` is that of the archive.
    job_batch: str | None = None
    redrive_of: str | None = None
    traceparent: str | None = None


class _ReadLine(_Line, frozen=True, kw_only=True, rename={"json_payload": "json"}):
    json_payload: Raw = Raw()
    result: Any = None


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the line of a completed job says that only its worker knows."""

    id: str
    finished_at: Moment
    result: Raw = Raw()


_DEAD = b'"status":"dead"'
_BATCH = b',"batch":'
_KEPT = b'"payload_object":"archive/'
_COMPLETED = FinishedStatus.COMPLETED
_decode_line = msgspec.json.Decoder(_ReadLine).decode
_decode_said = msgspec.json.Decoder(Said).decode
_encode = msgspec.json.Encoder().encode


def encode_archived(
    job: Job,
    status: FinishedStatus,
    claimed_at: datetime | None,
    finished_at: datetime,
    error: str | None = None,
    result: bytes = b"",
    keeps_payload: bool = False,
) -> bytes:
    """The line of a job that is finished, by the claim of that time, if any; `result` is JSON already.

    `keeps_payload` names the copy of a large payload that the archive will have.
    """
    payload_object = job.payload_object
    if keeps_payload and payload_object is not None:
        payload_object = f"{ARCHIVE}{hour_of(finished_at)}/{payload_object}"
    is_json = is_json_line(job.payload)
    archived = _Line(
        v=FORMAT,
        id=job.id,
        entrypoint=job.entrypoint,
        created_at=job.created_at,
        claimed_at=claimed_at,
        finished_at=finished_at,
        worker=job.worker,
    )
    is_plain = job.attempts == 1 and not job.history and not job.priority and is_json
    if status is not _COMPLETED or payload_object or not is_plain:
        archived = replace(
            archived,
            status=status,
            priority=job.priority,
            first_claimed_at=job.history[0].claimed_at if job.history else None,
            earlier_attempts=job.history,
            attempts_total=job.attempts,
            error=error,
            payload=b"" if is_json else job.payload,
            payload_object=payload_object,
            payload_size=job.payload_size,
        )
    if job.key or job.limit_key or job.tenant or job.run_at or job.batch or job.redrive_of:
        archived = replace(
            archived,
            run_at=job.run_at,
            key=job.key,
            tenant=job.tenant,
            limit_key=job.limit_key,
            job_batch=job.batch,
            redrive_of=job.redrive_of,
        )
    if job.traceparent:
        archived = replace(archived, traceparent=job.traceparent)
    json_payload = b',"json":' + job.payload if is_json else b""
    result = result and b',"result":' + result
    return b"%b%b%b}" % (_encode(archived)[:-1], json_payload, result)


def lines_of(lines: Iterable[bytes], job_ids: Iterable[str]) -> dict[str, bytes]:
    """The lines of the jobs with these ids, as far as they are among these."""
    beginnings = {beginning_of(job_id): job_id for job_id in job_ids}
    lengths = {len(beginning) for beginning in beginnings}
    starts = ((line[:length], line) for line in lines for length in lengths)
    return {beginnings[start]: line for start, line in starts if start in beginnings}


def beginning_of(job_id: str) -> bytes:
    """What the line of the job with this id begins with, up to the next field."""
    return b'{"v":%d,"id":%b,' % (FORMAT, _encode(job_id))


def kept_payloads(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    """The large payloads that the archive keeps for these jobs: the object, and the name of its copy."""
    kept = []
    lines = list(lines)
    # Mostly there is none: one look at all of them is quicker than one at each.
    if _KEPT not in b"".join(lines):
        return []
    for line in lines:
        if _KEPT in line:
            copy = decode_archived(line).payload_object or ""
            # The same text may stand in somebody's payload, or result.
            if copy.startswith(ARCHIVE):
                kept.append((original_of(copy), copy))
    return kept


def payloads_of_dead(lines: Iterable[bytes]) -> set[str]:
    """Of these large payloads those of dead jobs, which may be run again."""
    return {payload for payload, _ in kept_payloads(line for line in lines if _DEAD in line)}


def with_batch(line: bytes, version: int) -> bytes:
    """The line of a job in a compacted object. A damaged one stays as it is.

    >>> with_batch(b'{"v":1,"id":"a"}', 7)
    b'{"v":1,"id":"a","batch":7}'
    """
    return b'%b,"batch":%d}' % (line[:-1], version) if line.endswith(b"}") else line


def batch_of(line: bytes) -> int | None:
    """The batch that a line says it is of, if it does.

    >>> batch_of(b'{"v":1,"id":"a","batch":7}')
    7
    >>> batch_of(b'{"v":1,"id":"a","json":{"n":1,"batch":7}}')
    """
    digits = line[line.rfind(_BATCH) + len(_BATCH) : -1]
    return int(digits) if _BATCH in line and digits.isdigit() else None


def original_of(payload_object: str) -> str:
    """The payload that the archive's copy was made of; any other is its own.

    >>> original_of("archive/2026-02-15T10/payloads/000000000008-00000000000000aa")
    'payloads/000000000008-00000000000000aa'
    """
    return "/".join(payload_object.split("/")[2:]) if payload_object.startswith(ARCHIVE) else payload_object


def decode_said(line: bytes) -> Said:
    """What a worker says about a job, in the line that it wrote. Raises CorruptStateError."""
    try:
        return _decode_said(line)
    except UNREADABLE as error:
        raise CorruptStateError(f"no archived job: {error}") from error


def decode_archived(line: bytes) -> ArchivedJob:
    """The job of a line. Raises CorruptStateError.

    Fields that a newer bucketq added are passed over, but not a newer format.
    """
    try:
        read = _decode_line(line)
    except UNREADABLE as error:
        raise CorruptStateError(f"no archived job: {error}") from error
    if read.v > FORMAT:
        raise CorruptStateError(
            f"it has format {read.v}, this bucketq knows {FORMAT}: upgrade bucketq to read it"
        )
    if read.claimed_at is None and read.status is FinishedStatus.COMPLETED:
        raise CorruptStateError("no archived job: it is completed, but has no claimed_at")
    return ArchivedJob(
        id=read.id,
        entrypoint=read.entrypoint,
        status=read.status,
        priority=read.priority,
        created_at=read.created_at,
        first_claimed_at=read.first_claimed_at or read.claimed_at,
        claimed_at=read.claimed_at,
        finished_at=read.finished_at,
        attempts=(*read.earlier_attempts, *_last_attempt(read)),
        attempts_total=read.attempts_total,
        worker=read.worker,
        error=read.error,
        payload=bytes(read.json_payload) or read.payload,
        payload_object=read.payload_object,
        payload_size=read.payload_size,
        result=read.result,
        run_at=read.run_at,
        key=read.key,
        tenant=read.tenant,
        limit_key=read.limit_key,
        job_batch=read.job_batch,
        redrive_of=read.redrive_of,
        traceparent=read.traceparent,
    )


def _last_attempt(read: _ReadLine) -> Iterator[Attempt]:
    if read.claimed_at is not None:
        yield Attempt(
            claimed_at=read.claimed_at,
            ended_at=read.finished_at,
            outcome=_outcome(read.status, read.error),
            worker=read.worker,
            error=read.error,
        )


def _outcome(status: FinishedStatus, error: str | None) -> Outcome:
    if status is FinishedStatus.COMPLETED:
        return Outcome.COMPLETED
    if error == STALE:
        return Outcome.STALE
    if status is not FinishedStatus.DEAD:
        return Outcome.CANCELLED
    return Outcome.TIMED_OUT if error and error.startswith(TIMED_OUT) else Outcome.FAILED
