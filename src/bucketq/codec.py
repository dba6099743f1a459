"""QueueState <-> JSON bytes. The only place that knows the format of queue.json.

    {"format":1,"version":7,"sequence":2,"enqueued_total":2,…,"writers":{…},"jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    {"id":"…","entrypoint":"thumb","payload":"iVBORw==","created_at":"…","seq":2}
    ]}

One job a line, defaults left out. A payload that is JSON stays readable under `json`,
to the byte; any other is base64 under `payload`. Files of jqueue, which have neither
`format` nor `seq`, are opened as they are.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import replace

from bucketq.errors import CorruptStateError, NewerFormatError
from bucketq.job import Job, JobStatus
from bucketq.state import Mark, QueueState, Totals

FORMAT = 1

# Left out of the file: msgspec omits a default only if it is the very same object.
_NO_JSON = Raw()
_Count = Annotated[int, Meta(ge=0)]


class _StoredJob(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"sequence": "seq"},
):
    id: Annotated[str, Meta(min_length=1)]
    entrypoint: str
    status: JobStatus = JobStatus.QUEUED
    priority: int = 0
    created_at: datetime
    heartbeat_at: datetime | None = None
    sequence: _Count = 0
    attempts: _Count = 0
    max_attempts: _Count = 3
    claimed_at: datetime | None = None
    token: str | None = None
    error: str | None = None
    payload: bytes = b""
    json: Raw = _NO_JSON


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: _Count = 0
    version: _Count
    sequence: _Count = 0
    enqueued_total: _Count = 0
    completed_total: _Count = 0
    dead_total: _Count = 0
    writers: dict[str, Mark] = {}
    forgotten_version: _Count = 0


class _Document(_Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jobs: list[_StoredJob]


class _FormatOnly(msgspec.Struct):
    format: object = 0


_decode_document = msgspec.json.Decoder(_Document).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode


class StateEncoder:
    """Encodes one state again and again; only the jobs touched in between cost anything."""

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._fragments: dict[str, bytes] | None = None

    def encode(self) -> bytes:
        """The state as it is now, as the bytes of a queue.json."""
        state = self._state
        fragments = self._update_fragments()
        header = _Header(
            format=FORMAT,
            version=state.version,
            sequence=state.sequence,
            enqueued_total=state.totals.enqueued,
            completed_total=state.totals.completed,
            dead_total=state.totals.dead,
            writers=state.writers,
            forgotten_version=state.forgotten_version,
        )
        parts = [*fragments.values()] or [b""]
        # Head and tail are glued to the first and last job, so that the one big copy is the join.
        parts[0] = _encode(header)[:-1] + b',"jobs":[\n' + parts[0]
        parts[-1] += b"\n]}\n"
        return b",\n".join(parts)

    def _update_fragments(self) -> dict[str, bytes]:
        state = self._state
        if self._fragments is None:
            self._fragments = {job.id: _encode_job(job) for job in state.jobs}
        else:
            for job_id in state.touched:
                job = state.find(job_id)
                if job is not None:
                    self._fragments[job_id] = _encode_job(job)
                else:
                    self._fragments.pop(job_id, None)
        state.touched.clear()
        return self._fragments


def encode(state: QueueState) -> bytes:
    """The bytes of a queue.json that holds this state."""
    return StateEncoder(state).encode()


def decode(content: bytes) -> QueueState:
    """Read a queue.json; raises CorruptStateError if it is none, NewerFormatError if it is too new.

    >>> decode(b'{"version":3,"jobs":[]}').version
    3
    """
    try:
        document = _decode_document(content)
    except msgspec.MsgspecError as error:
        _refuse_newer_format(content)
        raise _corrupt(content, str(error)) from error
    if document.format > FORMAT:
        _refuse_newer_format(content)
    if len({job.id for job in document.jobs}) < len(document.jobs):
        raise CorruptStateError("the queue holds two jobs with the same id. Nothing was changed.")
    return _from_jqueue(document) if document.format == 0 else _from_document(document)


def _from_document(document: _Document) -> QueueState:
    state = QueueState(
        (_job(stored) for stored in document.jobs),
        version=document.version,
        sequence=document.sequence,
        totals=Totals(document.enqueued_total, document.completed_total, document.dead_total),
        writers=document.writers,
        forgotten_version=document.forgotten_version,
    )
    if any(stored.sequence > document.sequence for stored in document.jobs):
        raise CorruptStateError("a job's seq is beyond the queue's sequence. Nothing was changed.")
    if not state.is_conserved():
        raise CorruptStateError(
            f"the queue's counters do not add up ({state.stats}): enqueued_total should equal"
            " queued + in_progress + completed_total + dead_total. A job was added or removed"
            " by hand: restore the object, or correct its counters. Nothing was changed."
        )
    return state


def _from_jqueue(document: _Document) -> QueueState:
    # jqueue serves jobs by (priority, created_at): numbering them by age keeps its order.
    jobs = [
        replace(
            _job(stored),
            sequence=number,
            attempts=1 if stored.status is JobStatus.IN_PROGRESS else 0,
        )
        for number, stored in enumerate(sorted(document.jobs, key=lambda job: job.created_at), 1)
    ]
    dead = sum(job.status is JobStatus.DEAD for job in jobs)
    totals = Totals(enqueued=len(jobs), dead=dead)
    return QueueState(jobs, version=document.version, sequence=len(jobs), totals=totals)


def _job(stored: _StoredJob) -> Job:
    return Job(
        id=stored.id,
        entrypoint=stored.entrypoint,
        payload=bytes(stored.json) or stored.payload,
        status=stored.status,
        priority=stored.priority,
        created_at=stored.created_at,
        heartbeat_at=stored.heartbeat_at,
        sequence=stored.sequence,
        attempts=stored.attempts,
        max_attempts=stored.max_attempts,
        claimed_at=stored.claimed_at,
        token=stored.token,
        error=stored.error,
    )


def _encode_job(job: Job) -> bytes:
    readable = _is_json_line(job.payload)
    return _encode(
        _StoredJob(
            id=job.id,
            entrypoint=job.entrypoint,
            status=job.status,
            priority=job.priority,
            created_at=job.created_at,
            heartbeat_at=job.heartbeat_at,
            sequence=job.sequence,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            claimed_at=job.claimed_at,
            token=job.token,
            error=job.error,
            payload=b"" if readable else job.payload,
            json=Raw(job.payload) if readable else _NO_JSON,
        )
    )


def _is_json_line(payload: bytes) -> bool:
    """Whether the payload can stand in the file as it is, and come back to the byte."""
    if not payload or payload[0] not in b'{["-0123456789tfn' or b"\n" in payload or b"\r" in payload:
        return False
    try:
        payload.decode()
        return bytes(_decode_raw(payload)) == payload
    except (UnicodeDecodeError, msgspec.DecodeError):
        return False


def _refuse_newer_format(content: bytes) -> None:
    try:
        found = msgspec.json.decode(content, type=_FormatOnly).format
    except msgspec.MsgspecError:
        return
    if isinstance(found, int) and found > FORMAT:
        raise NewerFormatError(
            f"the queue has format {found}; this bucketq knows formats up to {FORMAT}."
            " Upgrade bucketq to open it. Nothing was changed."
        )


def _corrupt(content: bytes, reason: str) -> CorruptStateError:
    if not content.strip():
        return CorruptStateError(
            "the queue object exists but is empty. If it never was a queue, delete it and"
            " start again; if it was, restore it from a backup or an older version."
        )
    return CorruptStateError(
        f"the queue object ({len(content)} bytes) is not a readable queue: {reason}."
        " Restore it from a backup or an older version of the object. Nothing was changed."
    )
