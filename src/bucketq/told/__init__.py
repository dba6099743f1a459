"""Told: what is said of a queue in JSON, alike by REST, WebSocket and the command line."""

from bucketq.told.job import AttemptTold, JobTold
from bucketq.told.payload import NO_JSON, Encoding, told_payload, told_result
from bucketq.told.shape import Status, Told
from bucketq.told.stats import QueueCounts, QueueStats

__all__ = [
    "NO_JSON",
    "AttemptTold",
    "Encoding",
    "JobTold",
    "QueueCounts",
    "QueueStats",
    "Status",
    "Told",
    "told_payload",
    "told_result",
]
