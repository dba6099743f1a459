"""Columns: which ones the tables `archive`, `jobs` and `lines` have, in Arrow's types."""

import msgspec
import pyarrow as pa
from msgspec import Raw

from bucketq.jobline import UNREADABLE

MOMENT = pa.timestamp("us", "UTC")
ATTEMPT = pa.struct(
    {
        "claimed_at": MOMENT,
        "ended_at": MOMENT,
        "outcome": pa.string(),
        "worker": pa.string(),
        "error": pa.string(),
    }
)

_TYPES = {
    "id": pa.string(),
    "entrypoint": pa.string(),
    "status": pa.string(),
    "priority": pa.int64(),
    "sequence": pa.int64(),
    "created_at": MOMENT,
    "run_at": MOMENT,
    "first_claimed_at": MOMENT,
    "claimed_at": MOMENT,
    "heartbeat_at": MOMENT,
    "finished_at": MOMENT,
    "attempts": pa.list_(ATTEMPT),
    "attempts_total": pa.int64(),
    "max_attempts": pa.int64(),
    "worker": pa.string(),
    "error": pa.string(),
    "payload": pa.binary(),
    "payload_json": pa.string(),
    "payload_object": pa.string(),
    "payload_size": pa.int64(),
    "result": pa.string(),
}
_ONLY_LIVE = ("sequence", "run_at", "heartbeat_at", "max_attempts")
_ONLY_ARCHIVED = ("first_claimed_at", "finished_at", "result")

ARCHIVE = pa.schema({name: kind for name, kind in _TYPES.items() if name not in _ONLY_LIVE})
JOBS = pa.schema({name: kind for name, kind in _TYPES.items() if name not in _ONLY_ARCHIVED})
# The archive as it is: every line, and why one cannot be read, or a whole object.
LINES = pa.schema(
    {
        "object": pa.string(),
        "line": pa.int32(),
        "batch": pa.int64(),
        "text": pa.string(),
        "reason": pa.string(),
    }
)


def as_json(payload: bytes | None) -> bytes | None:
    """A payload that is JSON, for the column `payload_json`; None if it is not."""
    if not payload:
        return None
    try:
        payload.decode()
        msgspec.json.decode(payload, type=Raw)
        return payload
    except UNREADABLE:
        return None
