"""Refusal: an error as a value, for the way to another process, and for queue.json.

The error's own name travels, so a client raises what an embedded queue would have raised.
"""

import msgspec

import bucketq.errors
from bucketq.errors import (
    BucketQError,
    ClaimLostError,
    JobFailedError,
    JobNotFoundError,
    KeyTakenError,
    ParentsUnknownError,
)


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """The name of an error of bucketq, what it says, and the job that it is about."""

    error: str
    message: str
    job_id: str = ""

    @classmethod
    def of(cls, error: Exception) -> "Refusal":
        """What to send of an error.

        >>> Refusal.of(JobNotFoundError("1")).error
        'JobNotFoundError'
        """
        name = type(error).__name__ if isinstance(error, BucketQError) else BucketQError.__name__
        if isinstance(error, ClaimLostError):
            return cls(name, error.reason, error.job_id)
        if isinstance(error, ParentsUnknownError):
            return cls(name, msgspec.json.encode(error.job_ids).decode(), error.job_id)
        if isinstance(error, JobFailedError):
            return cls(name, error.error, error.job_id)
        job_id = error.job_id if isinstance(error, JobNotFoundError | KeyTakenError) else ""
        return cls(name, str(error), job_id)

    def exception(self) -> BucketQError:
        """The error that was refused with. One that this bucketq does not know is a BucketQError.

        >>> Refusal("ClaimLostError", "another worker holds it now", "1").exception()
        ClaimLostError('1', 'the claim on job 1 is lost: another worker holds it now')
        """
        kind = getattr(bucketq.errors, self.error, BucketQError)
        if not (isinstance(kind, type) and issubclass(kind, BucketQError)):
            kind = BucketQError
        if kind is ParentsUnknownError:
            return ParentsUnknownError(tuple(msgspec.json.decode(self.message, type=list[str])))
        if issubclass(kind, ClaimLostError | KeyTakenError | JobFailedError):
            return kind(self.job_id, self.message)
        if issubclass(kind, JobNotFoundError):
            return JobNotFoundError(self.job_id, self.message)
        return kind(self.message)
