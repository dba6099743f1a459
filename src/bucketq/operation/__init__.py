"""The operations on a queue, as values.

An operation carries everything that it needs, ids and times included, so applying it
again to a fresher state is a true replay. Calling one with a state runs a short script
of that state's transitions.
"""

from bucketq.operation.adoption import Adopt, Holding
from bucketq.operation.arrivals import Enqueue, EnqueueBatch, EnqueueSegments, Load
from bucketq.operation.brokers import Beat, Elect, StepDown
from bucketq.operation.claims import (
    Ack,
    AckMany,
    Bury,
    Crash,
    Dequeue,
    Heartbeat,
    HeartbeatMany,
    Nack,
    Release,
    RequeueSilent,
    Wake,
)
from bucketq.operation.lookups import Count, Find, FindBatch, Listed, ListInFile, LookUp, Refresh
from bucketq.operation.operation import (
    BATCH_OPERATIONS_MAX,
    Answers,
    Batch,
    Operation,
    Refuse,
    Submit,
    Transact,
    bytes_of,
    claims_of,
    enqueued_by,
    knowing,
    operations_in,
    questions_of,
    wakes_of,
    within,
)
from bucketq.operation.segment_claims import (
    DequeueSegment,
    HeartbeatSegment,
    ReleaseSegment,
    SettleSegment,
    Single,
)

__all__ = [
    "BATCH_OPERATIONS_MAX",
    "Ack",
    "AckMany",
    "Adopt",
    "Answers",
    "Batch",
    "Beat",
    "Bury",
    "Count",
    "Crash",
    "Dequeue",
    "DequeueSegment",
    "Elect",
    "Enqueue",
    "EnqueueBatch",
    "EnqueueSegments",
    "Find",
    "FindBatch",
    "Heartbeat",
    "HeartbeatMany",
    "HeartbeatSegment",
    "Holding",
    "ListInFile",
    "Listed",
    "Load",
    "LookUp",
    "Nack",
    "Operation",
    "Refresh",
    "Refuse",
    "Release",
    "ReleaseSegment",
    "RequeueSilent",
    "SettleSegment",
    "Single",
    "StepDown",
    "Submit",
    "Transact",
    "Wake",
    "bytes_of",
    "claims_of",
    "enqueued_by",
    "knowing",
    "operations_in",
    "questions_of",
    "wakes_of",
    "within",
]
