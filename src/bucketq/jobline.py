"""A job <-> its line of JSON, as it stands in queue.json and in the segments beside it.

What has its default value is left out. A payload that is JSON stays readable under `json`,
to the byte; any other is base64 under `payload`.
"""

import re
from functools import lru_cache

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from bucketq.errors import CorruptStateError
from bucketq.job import Job

# What is left of a line when its payload is taken away, about.
_LINE_BYTES = 200
_DEPTH_MAX = 64
_SHORT_BYTES = 4096
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
        )


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decode_line = msgspec.json.Decoder(StoredJob).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode


def encode_job(job: Job) -> bytes:
    """The line of a job."""
    if not is_json_line(job.payload):
        return _encode(job)
    return b'%b,"json":%b}' % (_encode(replace(job, payload=b""))[:-1], job.payload)


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
    if payload.count(b"[") + payload.count(b"{") <= _DEPTH_MAX:
        return False
    depth = deepest = 0
    without_strings = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", payload)
    for bracket in re.findall(rb"[\[\]{}]", without_strings):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEPTH_MAX
