"""Transaction: several operations that land in one commit, or not at all."""

from collections.abc import Awaitable, Callable, Sized
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec
from msgspec.structs import replace

from bucketq.archived_job import RESULT_BYTES_MAX
from bucketq.clock import Clock
from bucketq.duration import Duration, seconds_of
from bucketq.errors import ConfigurationError, PayloadError, QueueClosedError
from bucketq.failure import error_text, trace_text
from bucketq.job import Claim, Job, JobStatus
from bucketq.jobline import is_json_line
from bucketq.new_job import JobOptions
from bucketq.operation import Ack, Enqueue, Nack, Operation


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
        self, entrypoint: str, payload: Any = b"", priority: int = 0, **options: Unpack[JobOptions]
    ) -> Job:
        """Add a job; it exists once the transaction has landed, unless another one has its `key`.

        One that comes `after` others is blocked, as far as is known before.
        """
        job = self._new_job(entrypoint, payload, priority, options)
        self._add(Enqueue((job,), options.get("if_exists", "return")))
        # Until the transaction lands, nobody knows whether some of those are finished.
        return replace(job, status=JobStatus.BLOCKED) if job.after else job

    def ack(self, job: Job | Claim | str, result: Any = None) -> None:
        """Finish a job."""
        self._add(Ack(Claim.of(job), self._clock.now(), result_json(result)))

    def nack(
        self,
        job: Job | Claim | str,
        error: str | BaseException | None = None,
        *,
        retry_in: Duration = 0.0,
    ) -> None:
        """Give a job back that failed."""
        after_s = seconds_of(retry_in, "retry_in")
        self._add(Nack(Claim.of(job), error_text(error), self._clock.now(), after_s, trace_text(error)))

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


def check_results(jobs: Sized, results: Sized) -> None:
    """Raise ConfigurationError unless there is a result for each job."""
    if len(jobs) != len(results):
        raise ConfigurationError(
            f"ack_many takes one result for each job, or none at all, not {len(results)} for {len(jobs)}"
        )


def result_json(result: Any, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """A job's result as JSON; nothing for None. The hook is msgspec's. Raises PayloadError."""
    if result is None:
        return b""
    try:
        content = msgspec.json.encode(result, enc_hook=enc_hook)
        # A msgspec.Raw is encoded unseen.
        msgspec.json.decode(content)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"the result is not JSON: {error}") from error
    # In the archive a job is a line, and what nests too deeply could not be read again.
    if not is_json_line(b"[%b]" % content):
        raise PayloadError("the result is not JSON in one line, or nests too deeply")
    if len(content) > RESULT_BYTES_MAX:
        raise PayloadError(
            f"the result has {len(content)} bytes; the limit is {RESULT_BYTES_MAX}. Store it elsewhere."
        )
    return content
