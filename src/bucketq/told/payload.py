"""Payloads and results as they are told: what is JSON stays so, to the byte; other bytes are base64."""

from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

Encoding = Literal["json", "base64"]

# What a decoder says of what is no JSON, or none that it can hold.
NO_JSON = (msgspec.MsgspecError, RecursionError, UnicodeError)


def told_payload(content: bytes) -> tuple[Raw, Encoding]:
    """A payload for JSON, and how it is encoded there; none at all is null."""
    if not content:
        return Raw(b"null"), "json"
    try:
        msgspec.json.decode(content)
    except NO_JSON:
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
    except NO_JSON:
        pass
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def told_result(result: Any) -> Raw | UnsetType:
    """A result for JSON; none is left out."""
    return UNSET if result is None else Raw(msgspec.json.encode(result))
