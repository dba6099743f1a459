"""A job <-> its line of JSON, as it stands in queue.json and in the segments beside it.

What has its default value is left out. A payload that is JSON stays readable under `json`,
to the byte; any other is base64 under `payload`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Self

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from bucketq.errors import CorruptStateError
from bucketq.job import Job

# What is left of a line when its payload is taken away, about.
_LINE_BYTES = 200
_TRACE_BYTES = 75
DEPTH_MAX = 64
_SHORT_BYTES = 4096
_JSON = b',"json":'
_JSON_BEGINNINGS = b'{["-0123456789tfn'


class StoredJob(
    Job, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"json_payload": "json"}, gc=False
):
    """A job as its line spells it."""

    json_payload: Raw = Raw()

    def job(self) -> Job:
        """The job that the line stands for."""
        # Spelt out, because every job that comes from a segment passes here.
        return Job(
            id=self.id,
            entrypoint=self.entrypoint,
            payload=bytes(self.json_payload) or self.payload,
            payload_object=self.payload_object,
            payload_size=self.payload_size,
            status=self.status,
            priority=self.priority,
            created_at=self.created_at,
            heartbeat_at=self.heartbeat_at,
            sequence=self.sequence,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            claimed_at=self.claimed_at,
            token=self.token,
            worker=self.worker,
            error=self.error,
            history=self.history,
            crashes=self.crashes,
            max_crashes=self.max_crashes,
            run_at=self.run_at,
            expires_at=self.expires_at,
            timeout_s=self.timeout_s,
            key=self.key,
            key_for_s=self.key_for_s,
            tenant=self.tenant,
            turn=self.turn,
            limit_key=self.limit_key,
            after=self.after,
            if_dead=self.if_dead,
            batch=self.batch,
            progress=self.progress,
            note=self.note,
            is_cancelled=self.is_cancelled,
            redrive_of=self.redrive_of,
            traceparent=self.traceparent,
            tracestate=self.tracestate,
        )


# What a decoder says of what is no JSON, or none that it can hold.
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_decode_line = msgspec.json.Decoder(StoredJob).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_raws = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


def encode_job(job: Job) -> bytes:
    """The line of a job."""
    if not is_json_line(job.payload):
        return _encode(job)
    return b"%b%b%b}" % (_encode(replace(job, payload=b""))[:-1], _JSON, job.payload)


class LinePattern(NamedTuple):
    """What is the same in the lines of jobs that differ only in ids, places in line and payloads.

    A line is put together of `before`, the last part of its id, `between`, its place, `after`,
    its payload as `payload_field` spells it, and a closing bracket.
    """

    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, model: Job, id_beginning: str) -> Self:
        """The pattern of jobs like a model.

        >>> from datetime import UTC, datetime
        >>> mail = Job(id="", entrypoint="mail", created_at=datetime(2026, 1, 1, tzinfo=UTC))
        >>> LinePattern.of(mail, "019b-")[:2]
        (b'{"id":"019b-', b'","entrypoint":"mail","created_at":"2026-01-01T00:00:00Z","seq":')
        """
        line = encode_job(replace(model, id=id_beginning, sequence=1))
        before = b'{"id":"%b' % id_beginning.encode()
        # It cannot stand within a text: there the quotes would be escaped.
        between, seq, after = line[len(before) : -1].partition(b',"seq":')
        return cls(before, between + seq, after.removeprefix(b"1"))


def payload_field(payload: bytes) -> bytes:
    """What stands for a payload in the line of its job."""
    if is_json_line(payload):
        return _JSON + payload
    return payload and b',"payload":' + _encode(payload)


def are_json_lines(joined: bytes, lengths: Sequence[int], brackets: int) -> bool:
    """Whether each payload of many can stand in the file as it is; if not, each has to be looked at.

    They come joined by commas; `brackets` is how many the one with the most of them opens.

    >>> are_json_lines(b'{"a":1},[2,3],4', [7, 5, 1], 1), are_json_lines(b'[1,2],3,4', [2, 2, 3], 1)
    (True, False)
    """
    if b"\n" in joined or b"\r" in joined or brackets > DEPTH_MAX:
        return False
    try:
        joined.decode()
        found = _decode_raws(b"[%b]" % joined)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    # As many, and each as long as it was: so no space was between them, and each begins where it did.
    return list(map(len, map(bytes, found))) == lengths


def decode_job(line: bytes, where: str) -> Job:
    """The job of a line. Raises CorruptStateError, which calls its place `where`."""
    try:
        return _decode_line(line).job()
    except UNREADABLE as error:
        raise CorruptStateError(
            f"{where} holds a line that is no job: {error}. Nothing was changed."
        ) from error


def line_bytes(job: Job) -> int:
    """About how long the job's line is, without encoding it."""
    size = len(job.payload)
    if size and job.payload[0] not in _JSON_BEGINNINGS:
        size = size * 4 // 3
    if job.error:
        size += len(job.error) * (1 + len(job.history))
    if job.traceparent:
        size += _TRACE_BYTES + len(job.tracestate or "")
    return _LINE_BYTES + size


def is_json_line(payload: bytes) -> bool:
    """Whether the payload can stand in the file as it is, and come back to the byte."""
    # A job is written several times in its life, with the same payload.
    return _is_short_json_line(payload) if len(payload) <= _SHORT_BYTES else _is_json_line(payload)


@lru_cache(4096)
def _is_short_json_line(payload: bytes) -> bool:
    return _is_json_line(payload)


def _is_json_line(payload: bytes) -> bool:
    if not payload or payload[0] not in _JSON_BEGINNINGS or b"\n" in payload or b"\r" in payload:
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
    if payload.count(b"[") + payload.count(b"{") <= DEPTH_MAX:
        return False
    depth = deepest = 0
    without_strings = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", payload)
    for bracket in re.findall(rb"[\[\]{}]", without_strings):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > DEPTH_MAX
