"""Decoding: the bytes of queue.json, of any format so far -> QueueState."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from bucketq.archive_name import ArchiveName
from bucketq.backlog import Backlog
from bucketq.codec.document import FORMAT, Document
from bucketq.codec.osqueue import is_osqueue
from bucketq.election import Leader
from bucketq.errors import CorruptStateError, NewerFormatError
from bucketq.job import JobStatus, Moment
from bucketq.jobline import UNREADABLE
from bucketq.ledger import FinishedLine, Ledger, SealedBatch
from bucketq.loads import Loads
from bucketq.schedule import Schedules
from bucketq.segment import Segment
from bucketq.sessions import Sessions
from bucketq.signatures import Signatures
from bucketq.state import QueueState


class _FormatOnly(msgspec.Struct):
    format: object = 0


class _LeaderOnly(msgspec.Struct):
    leader: Leader | None = None


class _FinishedOnly(msgspec.Struct):
    finished_at: Moment


_decode_document = msgspec.json.Decoder(Document).decode
_decode_finished = msgspec.json.Decoder(_FinishedOnly).decode


def decode(content: bytes, name: str = "queue.json") -> QueueState:
    """Read a queue.json; raises CorruptStateError if it is none, NewerFormatError if it is too new.

    `name` is what an error calls it. No bytes at all are an empty queue, as for jqueue.

    >>> decode(b'{"version":3,"jobs":[]}').version
    3
    """
    if not content:
        return QueueState()
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
    if any((one.status is JobStatus.IN_PROGRESS) is (one.hold is None) for one in segments):
        raise CorruptStateError(f"{name}: a segment is in progress and not held. Nothing was changed.")
    state = _from_jqueue(document) if document.format == 0 else _from_document(document, segments, name)
    state.size = len(content)
    return state


def leader_of(content: bytes, name: str = "queue.json") -> Leader | None:
    """Which broker leads, without reading the jobs. Raises CorruptStateError."""
    if not content:
        return None
    try:
        return msgspec.json.decode(content, type=_LeaderOnly).leader
    except UNREADABLE as error:
        raise _corrupt(content, name, str(error)) from error


def _from_document(document: Document, segments: list[Segment], name: str) -> QueueState:
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
        batches={name: stored.batch() for name, stored in document.batches.items()},
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


def _from_jqueue(document: Document) -> QueueState:
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


def _ledger(document: Document, name: str) -> Ledger:
    for batch in (*document.sealed, *document.staged):
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
    sealed = {batch: SealedBatch(tuple(map(_one_line, lines))) for batch, lines in document.sealed.items()}
    for batch, parts in document.staged.items():
        sealed[batch] = sealed.get(batch, SealedBatch())._replace(parts=tuple(parts))
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
    if is_osqueue(content):
        return CorruptStateError(
            f"{name} is a queue of osqueue, which can't be opened in place. Copy its jobs into a new queue:"
            " bucketq import FILE --url URL. Nothing was changed."
        )
    return CorruptStateError(
        f"{name} ({len(content)} bytes) is not a readable queue: {reason}."
        " Restore it from a backup or an older version of the object. Nothing was changed."
    )
