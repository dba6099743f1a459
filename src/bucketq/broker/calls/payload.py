"""Payloads in JSON: what is JSON stays so, to the byte; other bytes are base64."""

import binascii
from base64 import b64decode, b64encode
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bucketq.errors import PayloadError

Encoding = Literal["json", "base64"]

# What a decoder says of what is no JSON, or none that it can hold.
NO_JSON = (msgspec.MsgspecError, RecursionError, UnicodeError)


def content_of(payload: Raw | UnsetType, encoding: Encoding) -> bytes:
    """The bytes of a payload that came in JSON. Raises PayloadError."""
    if payload is UNSET:
        return b""
    try:
        # The message was looked through for where the payload ends, but not at what is in it.
        value = msgspec.json.decode(payload)
        if encoding == "json":
            return bytes(payload)
        if isinstance(value, str):
            return b64decode(value, validate=True)
    except NO_JSON as error:
        raise PayloadError(f"the payload is no JSON that can be read again: {error}") from error
    except (binascii.Error, ValueError) as error:
        raise PayloadError(f"the payload is no base64: {error}") from error
    raise PayloadError("a payload whose payloadEncoding is base64 is a text")


def told_payload(content: bytes) -> tuple[Raw, Encoding]:
    """A payload for JSON, and how it is encoded there; none at all is null."""
    if not content:
        return Raw(b"null"), "json"
    try:
        msgspec.json.decode(content)
    except NO_JSON:
        return Raw(msgspec.json.encode(b64encode(content).decode())), "base64"
    return Raw(content), "json"


def told_result(result: Any) -> Raw | UnsetType:
    """A result for JSON; none is left out."""
    return UNSET if result is None else Raw(msgspec.json.encode(result))
