"""The entries of segments and of staged parts, as JSON in messages, and what is said of whole segments."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import msgspec

from bucketq.errors import ConfigurationError
from bucketq.ledger import StagedPart
from bucketq.operation import DequeueSegment
from bucketq.segment import Segment
from bucketq.segment_claim import SegmentClaim
from bucketq.v1 import queue_pb2 as pb

T = TypeVar("T", Segment, StagedPart)


def segments_of(segments: Iterable[bytes]) -> tuple[Segment, ...]:
    """The entries of segments from the wire. Raises ConfigurationError."""
    return _entries(segments, Segment)


def parts_of(parts: Iterable[bytes]) -> tuple[StagedPart, ...]:
    """The entries of staged parts from the wire. Raises ConfigurationError."""
    return _entries(parts, StagedPart)


def segment_claim_message(claim: SegmentClaim) -> pb.SegmentClaim:
    """The claim on a segment, for the wire."""
    return pb.SegmentClaim(segment=msgspec.json.encode(claim.segment), version=claim.version)


def segment_claim_of(message: pb.SegmentClaim) -> SegmentClaim:
    """The claim on a segment, from the wire."""
    [segment] = segments_of([message.segment])
    return SegmentClaim(segment, message.version)


def dequeue_segment_of(message: pb.DequeueSegmentRequest, now: datetime) -> DequeueSegment:
    """The wish for a segment, from the wire. Raises ConfigurationError."""
    if not message.token:
        raise ConfigurationError("a segment is dequeued with the claim's token")
    return DequeueSegment(message.entrypoint, message.token, now, message.worker or None)


def _entries(entries: Iterable[bytes], kind: type[T]) -> tuple[T, ...]:
    try:
        return tuple(msgspec.json.decode(entry, type=kind) for entry in entries)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"no entry of a segment: {error}") from error
