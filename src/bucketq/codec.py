"""QueueState <-> JSON bytes. The only place that knows the format of queue.json.

    {"format":1,"version":7,"sequence":2,"enqueued_total":2,…,"writers":{…},"jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    {"id":"…","entrypoint":"thumb","payload":"iVBORw==","created_at":"…","seq":2}
    ]}

One job a line, defaults left out. A payload that is JSON stays readable under `json`,
to the byte; any other is base64 under `payload`. Files of jqueue, which have neither
`format` nor `seq`, are opened as they are.
"""

import re

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, replace

from bucketq.errors import CorruptStateError, NewerFormatError
from bucketq.job import Count, Job, JobStatus
from bucketq.state import Mark, QueueState

FORMAT = 1

_JOBS_PER_BLOCK = 64
_DEPTH_MAX = 64


class _StoredJob(
    Job, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"json_payload": "json"}, gc=False
):
    json_payload: Raw = Raw()


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: Count = 0
    version: Count
    sequence: Count = 0
    enqueued_total: Count = 0
    completed_total: Count = 0
    dead_total: Count = 0
    writers: dict[str, Mark] = {}
    forgotten_version: Count = 0


class _Document(_Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jobs: list[_StoredJob]


class _FormatOnly(msgspec.Struct):
    format: object = 0


_decode_document = msgspec.json.Decoder(_Document).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class StateEncoder:
    """Encodes one state again and again; only the jobs touched in between cost anything.

    Jobs that were enqueued one after another share a block. A commit encodes the jobs it
    touched, joins their blocks, and passes on all other blocks as they are: a queue of
    megabytes is written without being copied.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._blocks: dict[int, dict[str, bytes]] | None = None
        self._joined: dict[int, bytes] = {}

    def encode(self) -> list[bytes]:
        """The pieces of a queue.json that holds the state as it is now."""
        self._join_touched_blocks()
        state = self._state
        header = _Header(
            format=FORMAT,
            version=state.version,
            sequence=state.sequence,
            enqueued_total=state.enqueued_total,
            completed_total=state.completed_total,
            dead_total=state.dead_total,
            writers=state.writers,
            forgotten_version=state.forgotten_version,
        )
        pieces = [_encode(header)[:-1] + b',"jobs":[\n']
        for block in self._joined.values():
            pieces += (block, b",\n")
        if self._joined:
            pieces.pop()
        return [*pieces, b"\n]}\n"]

    def _join_touched_blocks(self) -> None:
        state = self._state
        touched = state.touched
        if self._blocks is None:
            self._blocks = {}
            touched = {job.id: job.sequence for job in state.jobs}
        numbers = []
        for job_id, sequence in touched.items():
            number = sequence // _JOBS_PER_BLOCK
            numbers.append(number)
            block = self._blocks.setdefault(number, {})
            job = state.find(job_id)
            if job is not None:
                block[job_id] = _encode_job(job)
            else:
                block.pop(job_id, None)
        for number in dict.fromkeys(numbers):
            if self._blocks[number]:
                self._joined[number] = b",\n".join(self._blocks[number].values())
            else:
                del self._blocks[number]
                self._joined.pop(number, None)
        state.touched.clear()


def encode(state: QueueState) -> bytes:
    """The bytes of a queue.json that holds this state."""
    return b"".join(StateEncoder(state).encode())


def decode(content: bytes, name: str = "queue.json") -> QueueState:
    """Read a queue.json; raises CorruptStateError if it is none, NewerFormatError if it is too new.

    `name` is what an error calls it.

    >>> decode(b'{"version":3,"jobs":[]}').version
    3
    """
    try:
        document = _decode_document(content)
    except _UNREADABLE as error:
        _refuse_newer_format(content, name)
        raise _corrupt(content, name, str(error)) from error
    if document.format > FORMAT:
        _refuse_newer_format(content, name)
    if len({job.id for job in document.jobs}) < len(document.jobs):
        raise CorruptStateError(f"{name} holds two jobs with the same id. Nothing was changed.")
    return _from_jqueue(document) if document.format == 0 else _from_document(document, name)


def _from_document(document: _Document, name: str) -> QueueState:
    state = QueueState(
        (_job(stored) for stored in document.jobs),
        version=document.version,
        sequence=document.sequence,
        enqueued_total=document.enqueued_total,
        completed_total=document.completed_total,
        dead_total=document.dead_total,
        writers=document.writers,
        forgotten_version=document.forgotten_version,
    )
    if any(stored.sequence > document.sequence for stored in document.jobs):
        raise CorruptStateError(f"{name}: a job's seq is beyond the queue's sequence. Nothing was changed.")
    if not state.is_conserved():
        raise CorruptStateError(
            f"{name}: the counters do not add up ({state.stats}): enqueued_total should equal"
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
    return QueueState(
        jobs,
        version=document.version,
        sequence=len(jobs),
        enqueued_total=len(jobs),
        dead_total=sum(job.status is JobStatus.DEAD for job in jobs),
    )


def _job(stored: _StoredJob) -> Job:
    fields = dict(zip(Job.__struct_fields__, astuple(stored), strict=False))
    fields["payload"] = bytes(stored.json_payload) or stored.payload
    return Job(**fields)


def _encode_job(job: Job) -> bytes:
    if not _is_json_line(job.payload):
        return _encode(job)
    return b'%b,"json":%b}' % (_encode(replace(job, payload=b""))[:-1], job.payload)


def _is_json_line(payload: bytes) -> bool:
    """Whether the payload can stand in the file as it is, and come back to the byte."""
    if not payload or payload[0] not in b'{["-0123456789tfn' or b"\n" in payload or b"\r" in payload:
        return False
    if _nests_deeply(payload):
        return False
    try:
        payload.decode()
        return bytes(_decode_raw(payload)) == payload
    except (UnicodeDecodeError, msgspec.DecodeError):
        return False


def _nests_deeply(payload: bytes) -> bool:
    # A reader's stack must bear it, whoever the reader is.
    if payload.count(b"[") + payload.count(b"{") <= _DEPTH_MAX:
        return False
    depth = deepest = 0
    without_strings = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", payload)
    for bracket in re.findall(rb"[\[\]{}]", without_strings):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEPTH_MAX


def _refuse_newer_format(content: bytes, name: str) -> None:
    try:
        found = msgspec.json.decode(content, type=_FormatOnly).format
    except _UNREADABLE:
        return
    if isinstance(found, int) and found > FORMAT:
        raise NewerFormatError(
            f"{name} has format {found}; this bucketq knows formats up to {FORMAT}."
            " Upgrade bucketq to open it. Nothing was changed."
        )


def _corrupt(content: bytes, name: str, reason: str) -> CorruptStateError:
    if not content.strip():
        return CorruptStateError(
            f"{name} exists but is empty. If it never was a queue, delete it and"
            " start again; if it was, restore it from a backup or an older version."
        )
    return CorruptStateError(
        f"{name} ({len(content)} bytes) is not a readable queue: {reason}."
        " Restore it from a backup or an older version of the object. Nothing was changed."
    )
