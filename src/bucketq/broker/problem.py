"""Problem: an error, as those see it who speak HTTP and JSON."""

from typing import Any

import msgspec

from bucketq.errors import (
    BucketQError,
    CASConflictError,
    ClaimLostError,
    ConfigurationError,
    CorruptStateError,
    ForbiddenError,
    JobFailedError,
    JobNotFoundError,
    KeyTakenError,
    NotLeaderError,
    ObjectExistsError,
    ObjectNotFoundError,
    PayloadError,
    QueueFullError,
    ScheduleNotFoundError,
    SessionForgottenError,
    StorageError,
    StorageFullError,
    TooLargeError,
    TooManyRequestsError,
    UnauthenticatedError,
)

# The first that fits. Clients go by the tag.
_STATUSES: list[tuple[type[Exception], int]] = [
    (UnauthenticatedError, 401),
    (ForbiddenError, 403),
    (ClaimLostError, 409),
    (JobNotFoundError, 404),
    (ScheduleNotFoundError, 404),
    (ObjectNotFoundError, 404),
    (KeyTakenError, 409),
    (JobFailedError, 409),
    (ObjectExistsError, 409),
    (SessionForgottenError, 409),
    (TooLargeError, 413),
    (TooManyRequestsError, 429),
    (PayloadError, 400),
    (ConfigurationError, 400),
    (NotLeaderError, 503),
    (QueueFullError, 507),
    (StorageFullError, 507),
    (CorruptStateError, 500),
    (StorageError, 503),
    (CASConflictError, 503),
    (BucketQError, 500),
]


_NAMES = {"tag": "_tag", "job_id": "jobId", "may_be_done": "mayBeDone"}


class Problem(msgspec.Struct, frozen=True, rename=_NAMES, omit_defaults=True):
    """What went wrong: the error's name, and a sentence for people."""

    tag: str
    message: str
    job_id: str = ""
    # Where the leader is, if this broker is not it and knows.
    leader: str = ""
    # Whether it was at work on what was asked when it ceased to lead: to repeat it may do it twice.
    may_be_done: bool = False

    @classmethod
    def of(cls, error: BucketQError) -> "Problem":
        """What to tell of an error.

        >>> Problem.of(JobNotFoundError("7")).tag
        'JobNotFoundError'
        """
        job_id: Any = getattr(error, "job_id", "")
        if not isinstance(error, NotLeaderError):
            return cls(type(error).__name__, str(error), job_id)
        leader, may_be_done = error.http, error.may_be_done
        message = f"another broker leads: {leader}" if leader else str(error)
        if may_be_done:
            message += "; what was asked may have been done: look before repeating it"
        return cls(type(error).__name__, message, job_id, leader, may_be_done)


def status_of(error: BucketQError) -> int:
    """The status of HTTP that fits an error.

    >>> status_of(JobNotFoundError("7"))
    404
    """
    return next(status for kind, status in _STATUSES if isinstance(error, kind))
