"""Operations and their answers <-> messages of proto/bucketq/v1/queue.proto.

Both sides need it: a client writes operations and reads answers, a broker the other way round.
"""

from bucketq.wire.answers import answer_message, answer_of, ending_message, ending_of, stats_message
from bucketq.wire.jobs import STATUS_OF, claim_of, job_message
from bucketq.wire.media import BYTES, PROTOBUF
from bucketq.wire.objects import CHUNK_BYTES, info_message, info_of
from bucketq.wire.operations import operation_message, operation_of
from bucketq.wire.refusals import error_of, http_refusal_message, refusal_message
from bucketq.wire.spending import spending_message, spending_of

__all__ = [
    "BYTES",
    "CHUNK_BYTES",
    "PROTOBUF",
    "STATUS_OF",
    "answer_message",
    "answer_of",
    "claim_of",
    "ending_message",
    "ending_of",
    "error_of",
    "http_refusal_message",
    "info_message",
    "info_of",
    "job_message",
    "operation_message",
    "operation_of",
    "refusal_message",
    "spending_message",
    "spending_of",
    "stats_message",
]
