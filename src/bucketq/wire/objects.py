"""Objects beside the queue <-> messages."""

from bucketq.storage.port import ObjectInfo
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire.moments import EPOCH, microseconds, moment

# Objects travel in pieces of this size.
CHUNK_BYTES = 1024 * 1024


def info_message(info: ObjectInfo) -> pb.ObjectInfo:
    """A listed object, for the wire."""
    return pb.ObjectInfo(
        name=info.name, size_bytes=info.size_bytes, modified_at_us=microseconds(info.modified_at)
    )


def info_of(message: pb.ObjectInfo) -> ObjectInfo:
    """A listed object, from the wire."""
    return ObjectInfo(message.name, message.size_bytes, moment(message.modified_at_us) or EPOCH)
