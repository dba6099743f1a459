"""Transaction: several operations that land in one commit, or not at all."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from bucketq.errors import QueueClosedError
from bucketq.job import Claim, Job
from bucketq.operation import Ack, Enqueue, Nack, Operation


class Transaction:
    """What `queue.transaction()` gives: it collects inside the block and commits at its end.

    If the block raises, nothing is sent.
    """

    def __init__(
        self,
        new_job: Callable[..., Job],
        commit: Callable[[tuple[Operation, ...]], Awaitable[Any]],
    ) -> None:
        self._new_job = new_job
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

    def ack(self, job: Job | str) -> None:
        """Finish a job."""
        self._add(Ack(Claim.of(job)))

    def nack(self, job: Job | str, error: str | None = None) -> None:
        """Give a job back."""
        self._add(Nack(Claim.of(job), error))

    async def __aenter__(self) -> Self:
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
