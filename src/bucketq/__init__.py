"""bucketq: a durable job queue that lives in a bucket.

import bucketq

async with bucketq.connect("file:///var/lib/myapp/queue.json") as q:
    await q.enqueue("send_email", {"to": "alice@example.com"})
    for job in await q.dequeue("send_email"):
        ...
        await q.ack(job)
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# The rooms, and what each gives to the public. A room is opened when it is asked for: whoever only wants
# the command line's --help should not wait for all of them. Type checkers read the same from __init__.pyi.
_ROOMS = {
    "bucketq.app": (
        "App",
        "Call",
        "Event",
        "Handler",
        "Running",
        "TypedJob",
        "TypedQueue",
        "Worker",
        "provided",
    ),
    "bucketq.batches": ("BatchCounts",),
    "bucketq.embedded": ("BrokerQueue", "DirectQueue"),
    "bucketq.errors": (
        "AccessDeniedError",
        "BrokerUnavailableError",
        "BucketQError",
        "CASConflictError",
        "ClaimLostError",
        "ConfigurationError",
        "CorruptStateError",
        "ForbiddenError",
        "JobCancelledError",
        "JobFailedError",
        "JobNotDoneError",
        "JobNotFoundError",
        "KeyTakenError",
        "NewerFormatError",
        "NotLeaderError",
        "NotWrittenError",
        "ObjectExistsError",
        "ObjectNotFoundError",
        "OutcomeUnknownError",
        "PayloadError",
        "ProcessDiedError",
        "QueueClosedError",
        "QueueFullError",
        "ScheduleNotFoundError",
        "SlowDownError",
        "StorageError",
        "StorageFullError",
        "TooLargeError",
        "TooManyRequestsError",
        "UnauthenticatedError",
        "UnusableStorageError",
    ),
    "bucketq.heartbeat": ("HeartbeatManager",),
    "bucketq.job": ("Claim", "Job", "JobStatus"),
    "bucketq.new_batch": ("NewBatch", "Then"),
    "bucketq.new_job": ("JobOptions",),
    "bucketq.queue": ("Queue",),
    "bucketq.schedule": ("Schedule",),
    "bucketq.settings": ("Settings",),
    "bucketq.state": ("QueueState", "Stats"),
    "bucketq.storage": (
        "AzureStorage",
        "GCSStorage",
        "InMemoryStorage",
        "LocalFileSystemStorage",
        "ObjectInfo",
        "ObjectStoragePort",
        "S3Storage",
        "ThrottledStorage",
        "ThrottleStats",
        "open_storage",
    ),
    "bucketq.tls": ("Tls",),
    "bucketq.tracing": (),
    "bucketq.transaction": ("Transaction",),
    "bucketq.url": ("connect",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if f"bucketq.{name}" in _ROOMS:
        # Where somebody writes `except bucketq.errors.JobNotFoundError`.
        return import_module(f"bucketq.{name}")
    if name not in _HOMES:
        raise AttributeError(f"bucketq has no {name!r}")
    globals()[name] = given = getattr(import_module(_HOMES[name]), name)
    return given


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
