"""Everything that bucketq raises on purpose.

    BucketQError
    ├── JobNotFoundError          no such job (any more)
    │   ├── ClaimLostError        the job is there, but this claim on it is not
    │   │   └── JobCancelledError     somebody cancelled the job: its worker is to stop
    │   └── ParentsUnknownError   jobs to wait for are not in the queue; were they ever?
    ├── KeyTakenError             another job has this unique key
    ├── JobFailedError            the job whose result was asked for did not succeed
    │   └── JobNotDoneError       it was cancelled, or expired
    ├── ScheduleNotFoundError     no schedule of this name
    ├── CASConflictError          another writer was faster, on every try
    ├── StorageError              the storage failed; `.cause` says how
    │   ├── UnusableStorageError  it cannot work like this; never retried
    │   │   └── AccessDeniedError     credentials or permissions
    │   │       ├── UnauthenticatedError  a broker knows no such token
    │   │       └── ForbiddenError        the token's roles do not allow it
    │   ├── SlowDownError         the storage asks for fewer requests
    │   │   └── TooManyRequestsError  a broker does; `.retry_after_s` says for how long
    │   ├── BrokerUnavailableError  no broker could be reached
    │   ├── OutcomeUnknownError   a write may or may not have landed
    │   ├── NotWrittenError       a write has certainly not landed; `.cause` says why
    │   │   └── StorageFullError      no room: the disk is full, or a quota or limit is reached
    │   ├── ObjectNotFoundError   no object of that name beside the queue
    │   └── ObjectExistsError     create-only found one already there
    ├── CorruptStateError         the queue object is not a readable queue
    │   └── NewerFormatError      it was written by a newer bucketq
    ├── QueueFullError            queue.json is at its size limit; finish some work first
    ├── NotLeaderError            this broker does not lead; `.address` says who does
    ├── SessionForgottenError     a client was away for so long that its last batch is unknown
    ├── PayloadError              the payload is not JSON, or too large
    │   └── TooLargeError         it, or the message that it came in, is larger than a limit
    ├── ProcessDiedError          the process that a handler ran in died
    ├── QueueClosedError          not open, or open in another event loop
    └── ConfigurationError        a URL or setting makes no sense
        └── BrokerProtocolError       a broker can't read a message in JSON

A lost claim is a kind of "job not found", so a worker that treats a job which
somebody else finished as harmless treats a lost claim the same way.
"""


class BucketQError(Exception):
    """The root of every error that bucketq raises."""


class JobNotFoundError(BucketQError):
    """No job with this id is in the queue: it was finished, or it never existed."""

    def __init__(self, job_id: str, message: str | None = None) -> None:
        super().__init__(job_id, message)
        self.job_id = job_id

    def __str__(self) -> str:
        return self.args[1] or f"job {self.job_id} is not in the queue: finished, or never enqueued"


class ClaimLostError(JobNotFoundError):
    """The job was given to another worker, or back to the queue; drop its result."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(job_id, f"the claim on job {job_id} is lost: {reason}")
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        # It has to survive the way from a worker process to its parent.
        return type(self), (self.job_id, self.reason)


class JobCancelledError(ClaimLostError):
    """The job was cancelled while it ran; stop, and give it back with `nack` or `release`.

    Whoever has finished it all the same may still `ack` it.
    """

    def __init__(self, job_id: str, reason: str = "it was cancelled; stop its work") -> None:
        super().__init__(job_id, reason)


class KeyTakenError(BucketQError):
    """Another job has this unique key; `job_id` is that job's."""

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(job_id, message)
        self.job_id = job_id

    def __str__(self) -> str:
        return str(self.args[1])


class ParentsUnknownError(JobNotFoundError):
    """Jobs that a new one is to wait for are not in the queue. Tell in `finished` how they ended.

    A Queue does that by itself, and its callers see JobNotFoundError if they never existed.
    """

    def __init__(self, job_ids: "tuple[str, ...]") -> None:
        super().__init__(job_ids[0] if job_ids else "", f"not in the queue: {', '.join(job_ids)}")
        self.job_ids = job_ids

    def __reduce__(self) -> "tuple[type, tuple[tuple[str, ...]]]":
        return type(self), (self.job_ids,)


class JobFailedError(BucketQError):
    """The job is dead, so there is no result; `error` is that of its last attempt."""

    def __init__(self, job_id: str, error: str = "") -> None:
        super().__init__(job_id, error)
        self.job_id = job_id
        self.error = error

    def __str__(self) -> str:
        return f"job {self.job_id} did not succeed: {self.error}"


class JobNotDoneError(JobFailedError):
    """The job ended without being done: it was cancelled, or expired; `error` is the reason."""


class ScheduleNotFoundError(BucketQError):
    """No schedule has this name: it was removed, or never made."""


class CASConflictError(BucketQError):
    """A conditional write was refused because the object had changed."""


class StorageError(BucketQError):
    """The storage could not do what was asked; `cause` is the error underneath.

    >>> str(StorageError("write failed", OSError("disk full")))
    'write failed: disk full'
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        reason = "" if cause is None else str(getattr(cause, "strerror", None) or cause)
        super().__init__(message if reason in message else f"{message}: {reason}")
        self.cause = cause


class UnusableStorageError(StorageError):
    """The storage cannot be used as it is set up: no such bucket, no such folder."""


class AccessDeniedError(UnusableStorageError):
    """The storage refused the credentials, or they lack a permission."""


class UnauthenticatedError(AccessDeniedError):
    """The broker wants a token and was given none, or one that it does not know (any more)."""


class ForbiddenError(AccessDeniedError):
    """The caller's token is good, but its roles do not allow what was asked."""


class SlowDownError(StorageError):
    """The storage answered 429 or 503: it wants fewer requests."""


class TooManyRequestsError(SlowDownError):
    """The broker did nothing: it has enough of this client for `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BrokerUnavailableError(StorageError):
    """No broker could be reached; nothing was changed."""


class OutcomeUnknownError(StorageError):
    """A write was sent and its fate cannot be learnt; look before trying again."""


class NotWrittenError(StorageError):
    """Nothing was written, and the message says why: the same call may be repeated."""


class StorageFullError(NotWrittenError):
    """Nothing was written: the disk is full, or a quota or a limit on the size of files is reached."""


class ObjectNotFoundError(StorageError):
    """No object of that name lies beside the queue."""


class ObjectExistsError(StorageError):
    """Create-only found an object of that name already there."""


class CorruptStateError(BucketQError):
    """The queue object cannot be read as a queue; it is left untouched."""


class NewerFormatError(CorruptStateError):
    """The queue object was written by a newer bucketq; upgrade to open it."""


class QueueFullError(BucketQError):
    """queue.json is at its size limit: new work is refused, running work can finish."""


class NotLeaderError(BucketQError):
    """The broker that was asked does not lead; `address` is the leader's, if one is known.

    `http` is where that one listens for HTTP. `may_be_done` says that a term ended while the
    broker was at work on what was asked.
    """

    def __init__(self, address: str = "", *, http: str = "", may_be_done: bool = False) -> None:
        super().__init__(address)
        self.address = address
        self.http = http
        self.may_be_done = may_be_done

    def __str__(self) -> str:
        return f"another broker leads: {self.address}" if self.address else "no broker leads at the moment"


class SessionForgottenError(BucketQError):
    """Whether a client's batch was applied is not known any more; `version` is the queue's now."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version

    def __str__(self) -> str:
        return "the client was away for so long that nobody knows whether its last batch was applied"


class PayloadError(BucketQError):
    """The payload cannot be stored: not JSON-serialisable, or too large."""


class TooLargeError(PayloadError):
    """A payload, or the message that it came in, is larger than a limit; the message names the limit."""


class ProcessDiedError(BucketQError):
    """The process that a handler ran in died: its job has failed, nothing else."""


class QueueClosedError(BucketQError):
    """The queue is not open here: closed, never opened, or open in another event loop."""


class ConfigurationError(BucketQError, ValueError):
    """A URL or a setting is wrong; the message names it."""


class BrokerProtocolError(ConfigurationError):
    """A message to a broker isn't JSON, or isn't one of its calls; the name is that of osqueue."""
