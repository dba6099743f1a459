"""Archived jobs as Arrow columns: what the table `archive` consists of.

The archive may be large, so its lines become columns without becoming Python objects first:
Arrow's own reader takes all of a line but its payload and its result, which are JSON of any
shape and stay text.
"""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from types import GenericAlias
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from msgspec import Raw

from bucketq.archive_selection import Selection
from bucketq.archived_job import FORMAT, FinishedStatus
from bucketq.job import STALE, TIMED_OUT, Outcome
from bucketq.jobline import UNREADABLE
from bucketq.spark.columns import ARCHIVE, ATTEMPT, MOMENT, as_json

# The fields of a line that Arrow's reader takes, and what some stand for that are left out.
_FIELDS = {
    "v": pa.int64(),
    **{
        field.name: field.type
        for field in ARCHIVE
        if field.name not in ("attempts", "payload_json", "result")
    },
    "payload": pa.string(),
    "earlier_attempts": pa.list_(ATTEMPT),
}
_COMPLETED = FinishedStatus.COMPLETED.value
_DEFAULTS = {"status": _COMPLETED, "priority": 0, "attempts_total": 1, "payload_size": 0}
_NEVER_LEFT_OUT = ("v", "id", "entrypoint", "created_at", "finished_at")
# What is read in any case, to be looked at.
_ALWAYS_READ = (*_NEVER_LEFT_OUT, "claimed_at")
# The fields that a column is made of, where it is not the field of its name.
_MADE_OF = {
    "first_claimed_at": ("first_claimed_at", "claimed_at"),
    "attempts": ("earlier_attempts", "claimed_at", "finished_at", "status", "worker", "error"),
    "payload": ("payload", "payload_object"),
    "payload_json": ("payload",),
    "result": (),
}
_KNOWN = (*_FIELDS, "json", "result", "batch")
_KnownFields = msgspec.defstruct(
    "_KnownFields", [(name, Raw, Raw()) for name in _KNOWN], forbid_unknown_fields=True
)
_decode_known = msgspec.json.Decoder(GenericAlias(list, (_KnownFields,))).decode
_JSON, _RESULT = b',"json":', b',"result":'


class UnreadableLinesError(Exception):
    """Not every line is that of an archived job."""


class _Free(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The end of a line, of which two parts may be any JSON."""

    json: Raw = Raw()
    result: Raw = Raw()
    batch: Raw = Raw()


class _FreeColumns(NamedTuple):
    json: pa.BinaryArray
    result: pa.BinaryArray


_decode_free = msgspec.json.Decoder(_Free).decode
_NOTHING = _Free()
_NO_RESULT = (b"", b"null")


def archived(lines: Sequence[bytes], names: Sequence[str], selection: Selection) -> pa.RecordBatch:
    """The named columns of archived jobs, of those that are wanted. Raises UnreadableLinesError."""
    try:
        return _archived(lines, names, selection)
    except (pa.ArrowException, *UNREADABLE):
        pass
    try:
        # Perhaps somebody wrote them by hand.
        return _archived([_as_we_write(line) for line in lines], names, selection)
    except (pa.ArrowException, *UNREADABLE) as error:
        raise UnreadableLinesError(str(error)) from error


def extra_fields(lines: Sequence[bytes]) -> pa.StringArray:
    """The fields of each line that this bucketq does not know, as a JSON object; mostly there are none."""
    try:
        _decode_known(b"[%b]" % b",".join(lines))
        return pa.nulls(len(lines), pa.string())
    except msgspec.ValidationError:
        return pa.array(map(_extra, lines), pa.string())


def _extra(line: bytes) -> bytes | None:
    fields: dict[str, Raw] = msgspec.json.decode(line, type=dict[str, Raw])
    unknown = {name: value for name, value in fields.items() if name not in _KNOWN}
    return msgspec.json.encode(unknown) if unknown else None


def _archived(lines: Sequence[bytes], names: Sequence[str], selection: Selection) -> pa.RecordBatch:
    heads, free = _split(lines)
    made_of = {field for name in names for field in _MADE_OF.get(name, (name,))}
    # What Python readers would refuse is refused, whether its column is wanted or not.
    table = _parsed(heads, made_of | {"status", "payload", "claimed_at"})
    _decoded(table["payload"])
    schema = pa.schema([ARCHIVE.field(name) for name in names])
    batch = pa.RecordBatch.from_arrays([_column(name, table, free) for name in names], schema=schema)
    tests = list(_tests(table, selection))
    if not tests:
        return batch
    mask = tests[0]
    for test in tests[1:]:
        mask = pc.and_(mask, test)
    return batch.filter(mask)


def _split(lines: Sequence[bytes]) -> tuple[list[bytes], _FreeColumns]:
    """The lines without payloads, and what Arrow's reader would not leave as it is."""
    heads, free = list[bytes](), list[_Free]()
    for line in lines:
        # What comes first begins the end of the line: either may hold the other's name, further in.
        head = line.partition(_JSON)[0].partition(_RESULT)[0]
        end = line[len(head) :]
        if not end and (b'"json"' in line or b'"result"' in line):
            raise pa.ArrowInvalid("its parts are not where we put them")
        heads.append(head + b"}" if end else line)
        free.append(_decode_free(b"{" + end[1:]) if end else _NOTHING)
    json = pa.array([bytes(part.json) or None for part in free], pa.binary())
    results = (bytes(part.result) for part in free)
    return heads, _FreeColumns(
        json, pa.array([None if one in _NO_RESULT else one for one in results], pa.binary())
    )


def _as_we_write(line: bytes) -> bytes:
    """The same line in one piece, with what may be any JSON at its end."""
    fields = msgspec.json.decode(line, type=dict[str, Raw])
    end = {name: fields.pop(name) for name in ("json", "result", "batch") if name in fields}
    return msgspec.json.encode({**fields, **end})


def _parsed(heads: list[bytes], names: set[str]) -> pa.RecordBatch:
    content = b"\n".join(heads) + b"\n"
    # Arrow's reader would not mind.
    content.decode()
    fields = pa.schema({name: _FIELDS[name] for name in (*_ALWAYS_READ, *sorted(names - {*_ALWAYS_READ}))})
    table = pa.json.read_json(
        pa.BufferReader(content),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(content)),
        parse_options=pa.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(heads) or any(table[name].null_count for name in _NEVER_LEFT_OUT):
        raise pa.ArrowInvalid("a field is missing")
    if pc.max(table["v"]).as_py() > FORMAT:
        raise pa.ArrowInvalid("a line has a newer format")
    if not pc.all(pc.is_in(table["status"].fill_null(_COMPLETED), pa.array(list(FinishedStatus)))).as_py():
        raise pa.ArrowInvalid("a status is unknown")
    is_completed = pc.equal(table["status"].fill_null(_COMPLETED), _COMPLETED)
    if pc.any(pc.and_(is_completed, pc.is_null(table["claimed_at"]))).as_py():
        raise pa.ArrowInvalid("a completed job was never claimed")
    [batch] = table.combine_chunks().to_batches()
    return batch


def _column(name: str, table: pa.RecordBatch, free: _FreeColumns) -> pa.Array:
    match name:
        case "payload":
            is_object = table["payload_object"].is_valid()
            return pc.if_else(is_object, None, pc.coalesce(free.json, _decoded(table["payload"]), b""))
        case "payload_json":
            return pc.coalesce(free.json, _json_among(_decoded(table["payload"]))).cast(pa.string())
        case "result":
            return free.result.cast(pa.string())
        case "first_claimed_at":
            return pc.coalesce(table[name], table["claimed_at"])
        case "attempts":
            return _attempts(table)
    column = table[name]
    return column.fill_null(_DEFAULTS[name]) if name in _DEFAULTS else column


def _decoded(payloads: pa.StringArray) -> pa.BinaryArray:
    if payloads.null_count == len(payloads):
        return payloads.cast(pa.binary())
    try:
        return pa.array(
            [text and b64decode(text, validate=True) for text in payloads.to_pylist()], pa.binary()
        )
    except ValueError as error:
        raise pa.ArrowInvalid(f"a payload is no base64: {error}") from error


def _json_among(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Those that are JSON, though they cannot stand in a line as they are."""
    if payloads.null_count == len(payloads):
        return payloads
    return pa.array([as_json(payload) for payload in payloads.to_pylist()], pa.binary())


def _attempts(table: pa.RecordBatch) -> pa.ListArray:
    """The earlier attempts of each job, and its last one, which the line tells by other fields.

    A job that nobody held at its end has the earlier ones only.
    """
    status, error = table["status"].fill_null(_COMPLETED), table["error"]
    is_stale = pc.equal(error, STALE).fill_null(False)
    is_late = pc.starts_with(error, TIMED_OUT).fill_null(False)
    failed = pc.if_else(is_late, Outcome.TIMED_OUT.value, Outcome.FAILED.value)
    not_done = pc.if_else(pc.equal(status, FinishedStatus.DEAD.value), failed, Outcome.CANCELLED.value)
    not_done = pc.if_else(is_stale, Outcome.STALE.value, not_done)
    outcome = pc.if_else(pc.equal(status, _COMPLETED), Outcome.COMPLETED.value, not_done)
    columns = [table["claimed_at"], table["finished_at"], outcome, table["worker"], error]
    last = pa.StructArray.from_arrays(columns, fields=list(ATTEMPT))
    count = len(last)
    earlier = table["earlier_attempts"]
    was_held = table["claimed_at"].is_valid().to_pylist()
    if earlier.null_count == count and all(was_held):
        return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), last)
    # All attempts in one array, the last ones at its end, and for each job the places of its own.
    every = pa.concat_arrays([earlier.flatten(), last])
    offsets, places = [0], list[int]()
    begin = 0
    for number, length in enumerate(pc.list_value_length(earlier).fill_null(0).to_pylist()):
        places += range(begin, begin + length)
        if was_held[number]:
            places.append(len(every) - count + number)
        begin += length
        offsets.append(len(places))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), every.take(pa.array(places, pa.int64())))


def _tests(table: pa.RecordBatch, selection: Selection) -> Iterable[pa.BooleanArray]:
    if selection.since is not None:
        yield pc.greater_equal(table["finished_at"], pa.scalar(selection.since, MOMENT))
    if selection.until is not None:
        yield pc.less(table["finished_at"], pa.scalar(selection.until, MOMENT))
    if selection.entrypoint is not None:
        yield pc.equal(table["entrypoint"], selection.entrypoint)
    if selection.status is not None:
        yield pc.equal(table["status"].fill_null(_COMPLETED), selection.status.value)
