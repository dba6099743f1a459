"""The entries of segments, as JSON in messages."""

from collections.abc import Iterable

import msgspec

from bucketq.errors import ConfigurationError
from bucketq.segment import Segment


def segments_of(segments: Iterable[bytes]) -> tuple[Segment, ...]:
    """The entries of segments from the wire. Raises ConfigurationError."""
    try:
        return tuple(msgspec.json.decode(segment, type=Segment) for segment in segments)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"no entry of a segment: {error}") from error
