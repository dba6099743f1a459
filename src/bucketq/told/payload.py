"""Payloads and results as they are told: what is JSON stays so, to the byte; other bytes are base64."""

from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bucketq.jobline import UNREADABLE

Encoding = Literal["json", "base64"]


def told_payload(content: bytes) -> tuple[Raw, Encoding]:
    """A payload for JSON, and how it is encoded there; none at all is null."""
    if not content:
        return Raw(b"null"), "json"
    try:
        msgspec.json.decode(content)
    except UNREADABLE:
        return Raw(msgspec.json.encode(b64encode(content).decode())), "base64"
    return Raw(content), "json"


def readable(content: bytes) -> str | None:
    """A payload for people: JSON in lines of its own, other texts as they are; None if it is no text.

    >>> print(readable(b'{"to":"ada"}'))
    {
      "to": "ada"
    }
    """
    try:
        return msgspec.json.format(content, indent=2).decode()
    except UNREADABLE:
        pass
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def told_result(result: Any) -> Raw | UnsetType:
    """A result for JSON; none is left out."""
    return UNSET if result is None else Raw(msgspec.json.encode(result))
