"""The names of the objects beside a queue, and what they tell.

    backlog/000000000012-9f86d081884c7d65.json     a segment
    backlog/000000000012-9f86d081884c7d65.keys     its companion: fingerprints of unique keys
    payloads/000000000012-2c26b46b68ffc68f         a large payload
    staged/000000000012-fcde2b2edba56bf4.json      completed jobs, as lines for the archive
             │            └ nobody else's token
             └ the queue's version when the object was begun

An object is created before a commit refers to it. The version in its name lets the queue
tell a late reference from a timely one: once objects up to a version have been collected,
no commit may begin to refer to one of them.
"""

import re
from typing import Annotated

from msgspec import Meta

SEGMENTS = "backlog/"
PAYLOADS = "payloads/"
STAGED = "staged/"

_SEGMENT = r"^backlog/\d{12}-[0-9a-f]{16}\.json$"
_KEYS = r"^backlog/\d{12}-[0-9a-f]{16}\.keys$"
_PAYLOAD = r"^payloads/\d{12}-[0-9a-f]{16}$"
_STAGED = r"^staged/\d{12}-[0-9a-f]{16}\.json$"

SegmentName = Annotated[str, Meta(pattern=_SEGMENT)]
PayloadName = Annotated[str, Meta(pattern=_PAYLOAD)]
StagedName = Annotated[str, Meta(pattern=_STAGED)]


def segment_name(version: int, token: str) -> str:
    """
    >>> segment_name(12, "9f86d081884c7d65")
    'backlog/000000000012-9f86d081884c7d65.json'
    """
    return f"{SEGMENTS}{version:012}-{token}.json"


def keys_name(segment: str) -> str:
    """
    >>> keys_name("backlog/000000000012-9f86d081884c7d65.json")
    'backlog/000000000012-9f86d081884c7d65.keys'
    """
    return segment.removesuffix(".json") + ".keys"


def payload_name(version: int, token: str) -> str:
    """
    >>> payload_name(12, "2c26b46b68ffc68f")
    'payloads/000000000012-2c26b46b68ffc68f'
    """
    return f"{PAYLOADS}{version:012}-{token}"


def staged_name(version: int, token: str) -> str:
    """
    >>> staged_name(12, "fcde2b2edba56bf4")
    'staged/000000000012-fcde2b2edba56bf4.json'
    """
    return f"{STAGED}{version:012}-{token}.json"


def is_payload_name(name: str) -> bool:
    """Whether an object of this name is a payload."""
    return re.fullmatch(_PAYLOAD, name) is not None


def begun_at(name: str) -> str:
    """The version in the name of an object of ours, in digits that compare as versions do.

    >>> begun_at("payloads/000000000012-2c26b46b68ffc68f") < begun_at(segment_name(13, "9f86d081884c7d65"))
    True
    """
    return name.partition("/")[2][:12]


def version_of(name: str) -> int | None:
    """The version in a name, or None if somebody else's object has it.

    >>> version_of("payloads/000000000012-2c26b46b68ffc68f")
    12
    >>> version_of("payloads/202601011200-export.csv")
    """
    is_ours = any(re.fullmatch(pattern, name) for pattern in (_SEGMENT, _KEYS, _PAYLOAD, _STAGED))
    return int(name.partition("/")[2][:12]) if is_ours else None
