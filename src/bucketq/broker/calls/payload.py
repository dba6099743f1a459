"""Payloads that come in JSON."""

import binascii
from base64 import b64decode

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bucketq.errors import PayloadError
from bucketq.jobline import UNREADABLE
from bucketq.told import Encoding


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
    except UNREADABLE as error:
        raise PayloadError(f"the payload is no JSON that can be read again: {error}") from error
    except (binascii.Error, ValueError) as error:
        raise PayloadError(f"the payload is no base64: {error}") from error
    raise PayloadError("a payload whose payloadEncoding is base64 is a text")
