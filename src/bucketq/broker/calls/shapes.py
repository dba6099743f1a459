"""Shapes: what the fields of many calls look like, and where it is said how much they may hold."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from bucketq.broker.service import WAIT_MAX_S
from bucketq.new_job import NAME_MAX

# What every JSON reader can hold without rounding.
_WHOLE_MAX = 2**53 - 1

Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Whole = Annotated[int, Meta(ge=1, le=_WHOLE_MAX)]
Priority = Annotated[int, Meta(ge=-_WHOLE_MAX, le=_WHOLE_MAX)]
Seconds = Annotated[float, Meta(ge=0, lt=1e11)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_MAX_S)]
Moment = Annotated[datetime, Meta(tz=True)]


def not_both(one: str, other: str) -> dict[str, Any]:
    """That two fields exclude each other, in JSON Schema."""
    return {"not": {"required": [one, other]}}


NOT_BOTH_TIMES = [not_both("delay", "runAt"), not_both("expiresIn", "expiresAt")]
# What is said to be base64 is.
IF_BASE64 = {
    "if": {"properties": {"payloadEncoding": {"const": "base64"}}, "required": ["payloadEncoding"]},
    "then": {"properties": {"payload": {"type": "string", "format": "base64"}}},
}
