"""A job as lists show it: with the fields that clients of osqueue read, next to those of bucketq."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from bucketq.job import Job, JobStatus
from bucketq.told.job import JobTold, fields_of_live

# What osqueue calls a status. It drops dead jobs, so it has no word for them.
_STATUSES = {JobStatus.IN_PROGRESS: "in_progress", JobStatus.DEAD: "dead"}
_UNCLAIMED = "unclaimed"


class ListedJob(JobTold, kw_only=True):
    """A job in a list.

    `status`, `createdAt` and `heartbeat` are those of osqueue: `unclaimed`, `in_progress` or `dead`, and
    milliseconds since 1970, 0 for none. `state` is the status in bucketq, and `enqueuedAt` the time as text.
    """

    state: JobStatus
    enqueued_at: datetime
    heartbeat: int
    status: Annotated[str, Meta(extra_json_schema={"enum": [_UNCLAIMED, *_STATUSES.values()]})]
    created_at: int  # type: ignore[assignment]

    @classmethod
    def of(cls, job: Job) -> "ListedJob":
        """A job in the queue, for a list."""
        osqueue = {
            "status": _STATUSES.get(job.status, _UNCLAIMED),
            "created_at": milliseconds(job.created_at),
            "heartbeat": milliseconds(job.heartbeat_at),
        }
        return cls(**fields_of_live(job) | osqueue, state=job.status, enqueued_at=job.created_at)


def milliseconds(moment: datetime | None) -> int:
    """A time as osqueue spells it: milliseconds since 1970, 0 for none.

    >>> milliseconds(None), milliseconds(datetime.fromisoformat("2024-01-23T08:53:20Z"))
    (0, 1706000000000)
    """
    return 0 if moment is None else int(moment.timestamp() * 1000)
