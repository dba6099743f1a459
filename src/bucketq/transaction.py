"""Transaction: several operations that land in one commit, or not at all."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import msgspec

from bucketq.clock import Clock
from bucketq.errors import ConfigurationError, PayloadError, QueueClosedError
from bucketq.job import Claim, Job
from bucketq.jobline import is_json_line
from bucketq.operation import Ack, Enqueue, Nack, Operation

_ERROR_MAX = 10_000
_RESULT_MAX = 64 * 1024


class Transaction:
    """What `queue.transaction()` gives: it collects inside the block and commits at its end.

    If the block raises, nothing is sent.
    """

    def __init__(
        self,
        new_job: Callable[..., Job],
        clock: Clock,
        commit: Callable[[tuple[Operation, ...]], Awaitable[Any]],
    ) -> None:
        self._new_job = new_job
        self._clock = clock
        self._commit = commit
        self._operations: list[Operation] = []
        self._open = False

    def enqueue(
        self, entrypoint: str, payload: Any = b"", priority: int = 0, *, max_attempts: int = 3
    ) -> Job:
        """Add a job; it exists once the transaction has landed."""
        job = self._new_job(entrypoint, payload, priority, max_attempts)
        self._add(Enqueue((job,)))
        return job

    def ack(self, job: Job | Claim | str, result: Any = None) -> None:
        """Finish a job."""
        self._add(Ack(Claim.of(job), self._clock.now(), result_json(result)))

    def nack(self, job: Job | Claim | str, error: str | BaseException | None = None) -> None:
        """Give a job back."""
        self._add(Nack(Claim.of(job), error_text(error), self._clock.now()))

    async def __aenter__(self) -> Self:
        if self._operations:
            raise QueueClosedError("the transaction is over; begin another one")
        self._open = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open = False
        if exc_type is None and self._operations:
            await self._commit(tuple(self._operations))

    def _add(self, operation: Operation) -> None:
        if not self._open:
            raise QueueClosedError("the transaction is over; add to it inside its `async with`")
        self._operations.append(operation)


def result_json(result: Any) -> bytes:
    """A job's result as JSON; nothing for None. Raises PayloadError."""
    if result is None:
        return b""
    try:
        content = msgspec.json.encode(result)
        # A msgspec.Raw is encoded unseen.
        msgspec.json.decode(content)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"the result is not JSON: {error}") from error
    # In the archive a job is a line, and what nests too deeply could not be read again.
    if not is_json_line(b"[%b]" % content):
        raise PayloadError("the result is not JSON in one line, or nests too deeply")
    if len(content) > _RESULT_MAX:
        raise PayloadError(
            f"the result has {len(content)} bytes; the limit is {_RESULT_MAX}. Store it elsewhere."
        )
    return content


def error_text(error: str | BaseException | None) -> str | None:
    """What to keep of an error: its text, or an exception's type and text.

    >>> error_text(ValueError("no such host"))
    'ValueError: no such host'
    """
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {error}"
    if error is None or isinstance(error, str):
        # A lone surrogate cannot be written as JSON, and a huge text would slow every commit down.
        if error and len(error) > _ERROR_MAX:
            error = f"{error[:_ERROR_MAX]} … (cut from {len(error)} characters)"
        return error and error.encode(errors="replace").decode()
    raise ConfigurationError(f"an error is a text or an exception, not {error!r}")
