"""QueueState <-> JSON bytes. The only place that knows the format of queue.json.

    {"format":6,"version":7,"sequence":5002,"enqueued_total":5002,…,"writers":{…},"segments":[
    {"name":"backlog/…","entrypoint":"mail","count":5000,"first":[0,0,3],"last":[0,0,5002],…}
    ],"jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    {"id":"…","entrypoint":"thumb","payload":"iVBORw==","created_at":"…","seq":2}
    ]}

One job a line, and one segment of the backlog. Before the segments stands what is on its
way to the archive: `finished` and `sealed` jobs, one a line, and how many were `archived` a
day; and before that which broker leads, how far the batches of its clients have got, and
which bulk loads have landed, which unique keys are kept though their jobs are finished, what
is left of `batches`, the schedules, one a line, and what is known of limits and tenants' turns.
Files of older formats, and of jqueue, which have neither `format` nor `seq`, are opened as
they are.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import replace

from bucketq.archive_name import ArchiveName
from bucketq.backlog import Backlog
from bucketq.batches import Batches, JobBatch
from bucketq.election import Leader
from bucketq.errors import CorruptStateError, NewerFormatError
from bucketq.job import Count, JobStatus, Moment
from bucketq.jobline import UNREADABLE, StoredJob, encode_job
from bucketq.kept_keys import KeptKey
from bucketq.ledger import FinishedLine, Ledger
from bucketq.limits import Limits, StoredBuckets
from bucketq.loads import LoadMark, Loads
from bucketq.schedule import Schedules, StoredSchedule, encode_schedule
from bucketq.segment import Key, Segment
from bucketq.sessions import SessionMark, Sessions
from bucketq.signatures import Signature, Signatures
from bucketq.state import QueueState
from bucketq.turns import TurnLine

FORMAT = 6

_JOBS_PER_BLOCK = 64


Day = Annotated[str, Meta(pattern=r"^\d{4}-[01]\d-[0-3]\d$")]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: Count = 0
    version: Count
    sequence: Count = 0
    enqueued_total: Count = 0
    completed_total: Count = 0
    dead_total: Count = 0
    cancelled_total: Count = 0
    writers: Mapping[str, Signature] = {}
    forgotten_version: Count = 0
    collected_version: Count = 0
    epoch: Count = 0


class _StoredSegment(Segment, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # Before format 6 there were no turns in them.
    first: Any
    last: Any

    def segment(self) -> Segment:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Segment(**fields | {"first": _key(self.first), "last": _key(self.last)})


def _key(stored: Any) -> Key:
    if isinstance(stored, list) and len(stored) == 2:
        stored = [stored[0], 0, stored[1]]
    key: Key = msgspec.convert(stored, Key)
    return key


class _StoredBatch(JobBatch, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    then: StoredJob | None = None

    def batch(self) -> JobBatch:
        then = self.then and self.then.job()
        return JobBatch(total=self.total, left=self.left, failed=self.failed, then=then)


class _Document(_Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    leader: Leader | None = None
    sessions: dict[str, SessionMark] = {}
    forgotten_sessions: Count = 0
    loads: dict[str, LoadMark] = {}
    kept_keys: dict[str, KeptKey] = {}
    batches: dict[str, _StoredBatch] = {}
    schedules: list[StoredSchedule] = []
    limits: Limits = Limits()
    buckets: StoredBuckets = StoredBuckets()
    turns: dict[str, dict[int, TurnLine]] = {}
    archived: dict[Day, Count] = {}
    expired: dict[Day, Count] = {}
    expired_total: Count = 0
    sealed: dict[str, list[Raw]] = {}
    finished: list[Raw] = []
    segments: list[_StoredSegment] = []
    jobs: list[StoredJob]


class _FormatOnly(msgspec.Struct):
    format: object = 0


class _LeaderOnly(msgspec.Struct):
    leader: Leader | None = None


class _FinishedOnly(msgspec.Struct):
    finished_at: Moment


_decode_document = msgspec.json.Decoder(_Document).decode
_decode_finished = msgspec.json.Decoder(_FinishedOnly).decode
_encode = msgspec.json.Encoder().encode


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
        self._backlog = Backlog()
        self._manifest = b""
        self._schedules = Schedules()
        self._schedule_lines = b""
        self._finished: list[FinishedLine] | None = None
        self._finished_blocks: list[bytes] = []
        self._kept_keys = -1, b""
        self._batches: dict[str, tuple[JobBatch, bytes]] = {}

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
            cancelled_total=state.cancelled_total,
            writers=state.signatures.writers,
            forgotten_version=state.signatures.forgotten_version,
            collected_version=state.collected_version,
            epoch=state.epoch,
        )
        if state.backlog is not self._backlog:
            self._backlog = state.backlog
            lines = b",\n".join(map(_encode, state.backlog))
            self._manifest = b',"segments":[\n%b\n]' % lines if lines else b""
        pieces = [
            _encode(header)[:-1],
            *self._marks(),
            *self._on_the_way(),
            self._manifest,
            b',"jobs":[\n',
        ]
        for block in self._joined.values():
            pieces += (block, b",\n")
        if self._joined:
            pieces.pop()
        pieces.append(b"\n]}\n")
        state.size = sum(map(len, pieces))
        return pieces

    def _marks(self) -> list[bytes]:
        """The pieces for who leads, and for what brokers' clients and bulk loads have done."""
        state = self._state
        pieces = []
        if state.leader is not None:
            pieces.append(b',"leader":' + _encode(state.leader))
        sessions = state.sessions
        if sessions.forgotten_version:
            pieces.append(b',"forgotten_sessions":%d' % sessions.forgotten_version)
        if sessions.marks:
            pieces.append(b',"sessions":' + _encode(sessions.marks))
        if state.loads.marks:
            pieces.append(b',"loads":' + _encode(state.loads.marks))
        if state.kept_keys:
            if self._kept_keys[0] != state.kept_keys.changes:
                self._kept_keys = state.kept_keys.changes, _encode(state.kept_keys.kept)
            pieces += (b',"kept_keys":', self._kept_keys[1])
        if state.batches or self._batches:
            known = self._batches
            self._batches = {
                name: known[name] if name in known and known[name][0] is batch else (batch, _batch(batch))
                for name, batch in state.batches
            }
        if self._batches:
            lines = (_encode(name) + b":" + line for name, (_, line) in self._batches.items())
            pieces.append(b',"batches":{\n' + b",\n".join(lines) + b"\n}")
        if state.schedules is not self._schedules:
            self._schedules = state.schedules
            spelt = b",\n".join(map(encode_schedule, state.schedules))
            self._schedule_lines = b',"schedules":[\n%b\n]' % spelt if spelt else b""
        pieces.append(self._schedule_lines)
        if state.limits:
            pieces.append(b',"limits":' + _encode(state.limits))
        if state.buckets:
            pieces.append(b',"buckets":' + _encode(state.buckets.stored()))
        if state.turns:
            pieces.append(b',"turns":' + _encode(state.turns.stored()))
        return pieces

    def _on_the_way(self) -> list[bytes]:
        """The pieces for what is on its way to the archive, or has arrived there."""
        ledger = self._state.ledger
        pieces = []
        if ledger.archived:
            pieces.append(b',"archived":' + _encode(ledger.archived))
        if ledger.expired_total:
            counts = _encode(ledger.expired), ledger.expired_total
            pieces.append(b',"expired":%b,"expired_total":%d' % counts)
        if ledger.sealed:
            batches = (
                _encode(name) + b":[\n" + b",\n".join(lines) + b"\n]" for name, lines in ledger.sealed.items()
            )
            pieces.append(b',"sealed":{' + b",".join(batches) + b"}")
        if ledger.finished is not self._finished:
            self._finished, self._finished_blocks = ledger.finished, []
        if not ledger.finished:
            return pieces
        # It only grows until it is sealed, so that full blocks are joined once.
        done = len(self._finished_blocks) * _JOBS_PER_BLOCK
        for start in range(done, len(ledger.finished) - _JOBS_PER_BLOCK + 1, _JOBS_PER_BLOCK):
            block = ledger.finished[start : start + _JOBS_PER_BLOCK]
            self._finished_blocks.append(b",\n".join(entry.line for entry in block) + b",\n")
        rest = ledger.finished[len(self._finished_blocks) * _JOBS_PER_BLOCK :]
        tail = b",\n".join(entry.line for entry in rest)
        if not rest:
            *blocks, last = self._finished_blocks
            return [*pieces, b',"finished":[\n', *blocks, last[:-2], b"\n]"]
        return [*pieces, b',"finished":[\n', *self._finished_blocks, tail, b"\n]"]

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
                block[job_id] = encode_job(job)
            else:
                block.pop(job_id, None)
        for number in dict.fromkeys(numbers):
            if self._blocks[number]:
                self._joined[number] = b",\n".join(self._blocks[number].values())
            else:
                del self._blocks[number]
                self._joined.pop(number, None)
        state.touched.clear()


def _batch(batch: JobBatch) -> bytes:
    if batch.then is None:
        return _encode(batch)
    return _encode(replace(batch, then=None))[:-1] + b',"then":' + encode_job(batch.then) + b"}"


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
        segments = [stored.segment() for stored in document.segments]
    except UNREADABLE as error:
        _refuse_newer_format(content, name)
        raise _corrupt(content, name, str(error)) from error
    if document.format > FORMAT:
        _refuse_newer_format(content, name)
    if _has_doubles(job.id for job in document.jobs):
        raise CorruptStateError(f"{name} holds two jobs with the same id. Nothing was changed.")
    if _has_doubles(schedule.name for schedule in document.schedules):
        raise CorruptStateError(f"{name} holds two schedules of the same name. Nothing was changed.")
    if _has_doubles(segment.name for segment in segments):
        raise CorruptStateError(f"{name} holds the same segment twice. Nothing was changed.")
    state = _from_jqueue(document) if document.format == 0 else _from_document(document, segments, name)
    state.size = len(content)
    return state


def leader_of(content: bytes, name: str = "queue.json") -> Leader | None:
    """Which broker leads, without reading the jobs. Raises CorruptStateError."""
    try:
        return msgspec.json.decode(content, type=_LeaderOnly).leader
    except UNREADABLE as error:
        raise _corrupt(content, name, str(error)) from error


def _from_document(document: _Document, segments: list[Segment], name: str) -> QueueState:
    state = QueueState(
        (stored.job() for stored in document.jobs),
        version=document.version,
        sequence=document.sequence,
        enqueued_total=document.enqueued_total,
        completed_total=document.completed_total,
        dead_total=document.dead_total,
        cancelled_total=document.cancelled_total,
        signatures=Signatures(document.writers, document.forgotten_version),
        collected_version=document.collected_version,
        backlog=Backlog(segments),
        ledger=_ledger(document, name),
        epoch=document.epoch,
        leader=document.leader,
        sessions=Sessions(document.sessions, document.forgotten_sessions),
        loads=Loads(document.loads),
        kept_keys=document.kept_keys,
        batches=Batches({name: stored.batch() for name, stored in document.batches.items()}),
        schedules=Schedules(stored.schedule() for stored in document.schedules),
        limits=document.limits,
        buckets=document.buckets,
        turns=document.turns,
    )
    places = [stored.sequence for stored in document.jobs]
    # Within a segment the highest place need not be the last.
    places += [segment.base + segment.count for segment in segments]
    if any(place > document.sequence for place in places):
        raise CorruptStateError(f"{name}: a job's seq is beyond the queue's sequence. Nothing was changed.")
    if not state.is_conserved():
        raise CorruptStateError(
            f"{name}: the counters do not add up ({state.stats}): enqueued_total should equal"
            " queued + scheduled + blocked + in_progress + completed_total + dead_total +"
            " cancelled_total. A job was added or removed"
            " by hand: restore the object, or correct its counters. Nothing was changed."
        )
    return state


def _from_jqueue(document: _Document) -> QueueState:
    # jqueue serves jobs by (priority, created_at): numbering them by age keeps its order.
    jobs = [
        replace(
            stored.job(),
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


def _ledger(document: _Document, name: str) -> Ledger:
    for batch in document.sealed:
        if ArchiveName.parse(batch) is None:
            raise CorruptStateError(
                f"{name}: {batch!r} is no name for an archive object. Nothing was changed."
            )
    try:
        finished = [
            FinishedLine(_decode_finished(line).finished_at, _one_line(line)) for line in document.finished
        ]
    except UNREADABLE as error:
        raise CorruptStateError(
            f"{name}: a finished job is damaged: {error}. Nothing was changed."
        ) from error
    sealed = {batch: tuple(map(_one_line, lines)) for batch, lines in document.sealed.items()}
    return Ledger(finished, sealed, document.archived, document.expired, document.expired_total)


def _one_line(line: Raw) -> bytes:
    # Somebody may have formatted the file, but in the archive a job is a line.
    return bytes(line) if b"\n" not in bytes(line) else msgspec.json.format(bytes(line), indent=-1)


def _has_doubles(names: Iterable[str]) -> bool:
    listed = list(names)
    return len(set(listed)) < len(listed)


def _refuse_newer_format(content: bytes, name: str) -> None:
    try:
        found = msgspec.json.decode(content, type=_FormatOnly).format
    except UNREADABLE:
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
