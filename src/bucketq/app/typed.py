"""TypedQueue: a queue of values of one type, for those who want no more than that.

    emails = TypedQueue(queue, Email)
    await emails.enqueue(Email(to="alice@example.com"))
    for item in await emails.dequeue():
        async with HeartbeatManager(emails, item):
            await send(item.value.to)
        await emails.ack(item)

A payload that is no such value, because another program wrote it, is dead with the reason and never
returned.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, Unpack

import msgspec

from bucketq.app.models import to_model, to_plain
from bucketq.app.outcome import Rejected
from bucketq.app.settling import settle
from bucketq.duration import Duration
from bucketq.errors import ConfigurationError, JobNotFoundError, PayloadError
from bucketq.job import Claim, Job
from bucketq.new_job import JobOptions
from bucketq.queue import Queue
from bucketq.retry import RetryPolicy

T = TypeVar("T")


class TypedJob(NamedTuple, Generic[T]):
    """A claimed job, and the value that it brings."""

    job: Job
    value: T


class TypedQueue(Generic[T]):
    """The values of one type in any queue: a dataclass, a Struct, a pydantic model, or what msgspec knows.

    The entrypoint is the type's name, unless another one is given. Raises ConfigurationError if the type
    cannot be read from JSON.
    """

    def __init__(self, queue: Queue, type_: type[T], entrypoint: str | None = None) -> None:
        self.queue = queue
        self.entrypoint = entrypoint or type_.__name__
        try:
            self._decoder = msgspec.json.Decoder(type_, dec_hook=to_model)
        except TypeError as error:
            raise ConfigurationError(f"{self.entrypoint} cannot be read from JSON: {error}") from error

    async def enqueue(self, value: T, priority: int = 0, **options: Unpack[JobOptions]) -> Job:
        """Add a value; the options are those of `Queue.enqueue`. Raises PayloadError if it does not fit."""
        return await self.queue.enqueue(self.entrypoint, self._encode(value), priority, **options)

    async def enqueue_many(
        self, values: Iterable[T], priority: int = 0, **options: Unpack[JobOptions]
    ) -> Sequence[str]:
        """Add any number of values in one commit, all or none; return the jobs' ids."""
        return await self.queue.enqueue_many(self.entrypoint, map(self._encode, values), priority, **options)

    async def dequeue(self, *, batch_size: int = 1, wait: float | None = None) -> list[TypedJob[T]]:
        """Claim up to `batch_size` values, as `Queue.dequeue` does."""
        items: list[TypedJob[T]] = []
        while not items:
            claimed = await self.queue.dequeue(self.entrypoint, batch_size=batch_size, wait=wait)
            if not claimed:
                break
            for job in claimed:
                try:
                    items.append(TypedJob(job, self._decode(job.payload)))
                except PayloadError as error:
                    # Somebody else may have it by now, and will see the same.
                    with suppress(JobNotFoundError):
                        await settle(self.queue, job, Rejected(str(error)))
        return items

    async def ack(self, item: TypedJob[T], result: Any = None) -> None:
        """It is done; see `Queue.ack`."""
        await self.queue.ack(item.job, result)

    async def nack(
        self,
        item: TypedJob[T],
        error: str | BaseException | None = None,
        *,
        retry_in: Duration = 0.0,
        retry: RetryPolicy | None = None,
    ) -> Job:
        """It failed, and is tried again or dead; see `Queue.nack`."""
        return await self.queue.nack(item.job, error, retry_in=retry_in, retry=retry)

    async def heartbeat(
        self, item: TypedJob[T] | Job | Claim | str, progress: float | None = None, note: str | None = None
    ) -> None:
        """Its worker is alive; see `Queue.heartbeat`. `HeartbeatManager(emails, item)` does it for you."""
        job = item.job if isinstance(item, TypedJob) else item
        await self.queue.heartbeat(job, progress, note)

    def _encode(self, value: T) -> bytes:
        try:
            payload = msgspec.json.encode(value, enc_hook=to_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"this {self.entrypoint} cannot be JSON: {error}") from error
        self._decode(payload)
        return payload

    def _decode(self, payload: bytes) -> T:
        try:
            return self._decoder.decode(payload)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the payload is no {self.entrypoint}: {error}") from error
