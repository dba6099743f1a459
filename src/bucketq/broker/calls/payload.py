"""Payloads in JSON: what is JSON stays so, other bytes are base64."""

import binascii
from base64 import b64decode, b64encode
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bucketq.errors import PayloadError

Encoding = Literal["json", "base64"]


def content_of(payload: Raw | UnsetType, encoding: Encoding) -> bytes:
    """The bytes of a payload that came in JSON. Raises PayloadError."""
    if payload is UNSET:
        return b""
    if encoding == "json":
        return bytes(payload)
    try:
        return b64decode(msgspec.json.decode(payload, type=str), validate=True)
    except (msgspec.MsgspecError, binascii.Error) as error:
        raise PayloadError(f"the payload is no text in base64: {error}") from error


def told_payload(content: bytes) -> tuple[Raw, Encoding]:
    """A payload for JSON, and how it is encoded there; none at all is null."""
    if not content:
        return Raw(b"null"), "json"
    try:
        msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Raw(msgspec.json.encode(b64encode(content).decode())), "base64"
    return Raw(content), "json"
