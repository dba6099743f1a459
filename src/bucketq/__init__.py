"""bucketq: a durable job queue that lives in a bucket.

import bucketq

async with bucketq.connect("file:///var/lib/myapp/queue.json") as q:
    await q.enqueue("send_email", {"to": "alice@example.com"})
    for job in await q.dequeue("send_email"):
        ...
        await q.ack(job)
"""

from bucketq.app import App, Call, Event, Handler, Running, TypedJob, TypedQueue, Worker, provided
from bucketq.batches import BatchCounts
from bucketq.embedded import BrokerQueue, DirectQueue
from bucketq.errors import (
    AccessDeniedError,
    BrokerUnavailableError,
    BucketQError,
    CASConflictError,
    ClaimLostError,
    ConfigurationError,
    CorruptStateError,
    ForbiddenError,
    JobCancelledError,
    JobFailedError,
    JobNotDoneError,
    JobNotFoundError,
    KeyTakenError,
    NewerFormatError,
    NotLeaderError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PayloadError,
    ProcessDiedError,
    QueueClosedError,
    QueueFullError,
    ScheduleNotFoundError,
    SlowDownError,
    StorageError,
    TooLargeError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnusableStorageError,
)
from bucketq.heartbeat import HeartbeatManager
from bucketq.job import Claim, Job, JobStatus
from bucketq.new_batch import NewBatch, Then
from bucketq.new_job import JobOptions
from bucketq.queue import Queue
from bucketq.schedule import Schedule
from bucketq.settings import Settings
from bucketq.state import QueueState, Stats
from bucketq.storage import (
    AzureStorage,
    GCSStorage,
    InMemoryStorage,
    LocalFileSystemStorage,
    ObjectInfo,
    ObjectStoragePort,
    S3Storage,
    ThrottledStorage,
    ThrottleStats,
    open_storage,
)
from bucketq.tls import Tls
from bucketq.transaction import Transaction
from bucketq.url import connect

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "App",
    "AzureStorage",
    "BatchCounts",
    "BrokerQueue",
    "BrokerUnavailableError",
    "BucketQError",
    "CASConflictError",
    "Call",
    "Claim",
    "ClaimLostError",
    "ConfigurationError",
    "CorruptStateError",
    "DirectQueue",
    "Event",
    "ForbiddenError",
    "GCSStorage",
    "Handler",
    "HeartbeatManager",
    "InMemoryStorage",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "JobNotDoneError",
    "JobNotFoundError",
    "JobOptions",
    "JobStatus",
    "KeyTakenError",
    "LocalFileSystemStorage",
    "NewBatch",
    "NewerFormatError",
    "NotLeaderError",
    "ObjectExistsError",
    "ObjectInfo",
    "ObjectNotFoundError",
    "ObjectStoragePort",
    "OutcomeUnknownError",
    "PayloadError",
    "ProcessDiedError",
    "Queue",
    "QueueClosedError",
    "QueueFullError",
    "QueueState",
    "Running",
    "S3Storage",
    "Schedule",
    "ScheduleNotFoundError",
    "Settings",
    "SlowDownError",
    "Stats",
    "StorageError",
    "Then",
    "ThrottleStats",
    "ThrottledStorage",
    "Tls",
    "TooLargeError",
    "TooManyRequestsError",
    "Transaction",
    "TypedJob",
    "TypedQueue",
    "UnauthenticatedError",
    "UnusableStorageError",
    "Worker",
    "connect",
    "open_storage",
    "provided",
]
