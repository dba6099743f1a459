"""Told: what is said of a queue in JSON, alike by REST, WebSocket and the command line."""

from bucketq.told.control import LimitsTold, LimitTold, ObjectTold
from bucketq.told.job import AttemptTold, JobTold
from bucketq.told.listed import ListedJob, milliseconds
from bucketq.told.payload import Encoding, readable, told_payload, told_result
from bucketq.told.queue import BrokerTold, QueueTold, TypeCounts
from bucketq.told.schedule import ScheduleTold
from bucketq.told.shape import Status, Told
from bucketq.told.spending import RequestsTold, SpendingTold
from bucketq.told.stats import QueueCounts, QueueStats

__all__ = [
    "AttemptTold",
    "BrokerTold",
    "Encoding",
    "JobTold",
    "LimitTold",
    "LimitsTold",
    "ListedJob",
    "ObjectTold",
    "QueueCounts",
    "QueueStats",
    "QueueTold",
    "RequestsTold",
    "ScheduleTold",
    "SpendingTold",
    "Status",
    "Told",
    "TypeCounts",
    "milliseconds",
    "readable",
    "told_payload",
    "told_result",
]
