"""Service: what a broker does for its clients, whatever language they speak it in.

A shell (gRPC and others) turns messages into these calls, and answers and errors into messages.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import msgspec

from bucketq.broker.broker import Broker
from bucketq.broker.listing import Page, list_jobs
from bucketq.broker.served import ServedQueue
from bucketq.election import Leader
from bucketq.errors import ConfigurationError, PayloadError
from bucketq.job import Claim, Job, JobStatus
from bucketq.jobline import is_json_line
from bucketq.object_name import version_of
from bucketq.operation import Ack, Answers, Dequeue, Enqueue, Operation, Transact
from bucketq.queue import check_new_job
from bucketq.state import Stats
from bucketq.storage.port import ObjectInfo

T = TypeVar("T")

# A client that wants to wait longer asks again.
WAIT_MAX_S = 300.0
_BATCH_SIZE_MAX = 10_000


class Service:
    """The operations on a queue, by way of the broker that leads; others raise NotLeaderError."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as this broker knows."""
        return self._broker.leader

    @property
    def is_leading(self) -> bool:
        """Whether this broker leads, as far as it knows."""
        return self._broker.is_leading

    async def enqueue(
        self, entrypoint: str, payload: bytes, priority: int = 0, *, max_attempts: int = 3
    ) -> Job:
        """Add a job."""
        return await self._lead(
            lambda queue: queue.enqueue(entrypoint, payload, priority, max_attempts=max_attempts)
        )

    async def dequeue(
        self, entrypoint: str | None, batch_size: int, wait_s: float, worker: str | None = None
    ) -> list[Job]:
        """Claim jobs; wait for some if there are none."""
        _check_batch_size(batch_size)
        wait = min(wait_s, WAIT_MAX_S)
        return await self._lead(
            lambda queue: queue.dequeue(entrypoint, batch_size=batch_size, wait=wait, worker=worker)
        )

    async def heartbeat(self, claim: Claim) -> None:
        """A worker lives."""
        await self._lead(lambda queue: queue.heartbeat(claim))

    async def ack(self, claim: Claim, result: bytes = b"") -> None:
        """A job is done; its result, if any, is JSON."""
        await self._lead(lambda queue: queue.ack(claim, msgspec.Raw(result) if result else None))

    async def nack(self, claim: Claim, error: str | None) -> Job:
        """A job failed."""
        return await self._lead(lambda queue: queue.nack(claim, error))

    async def transaction(self, operations: Sequence[Operation]) -> None:
        """Enqueues, acks and nacks that land together or not at all."""
        checked = tuple(map(_checked, operations))
        await self._lead(lambda queue: queue.transact(checked))

    async def batch(
        self, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        """Apply a client's numbered batch, once, however often it is sent."""
        if not session or number < 1:
            raise ConfigurationError("a batch has a session, and a number from 1 on")
        checked = tuple(map(_checked, operations))
        return await self._lead(lambda queue: queue.perform(session, number, seen_version, checked))

    async def wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""
        await self._lead(lambda queue: queue.wait_ready(entrypoint, min(timeout_s, WAIT_MAX_S)))

    async def stats(self) -> Stats:
        """How many jobs there are, and were."""
        return await self._lead(lambda queue: queue.stats())

    async def list_jobs(
        self, status: JobStatus | None, entrypoint: str | None, page_size: int, page_token: str
    ) -> Page:
        """One page of the jobs that are in the queue."""
        return await self._lead(lambda queue: list_jobs(queue, status, entrypoint, page_size, page_token))

    async def requeue_stale(self, timeout: timedelta) -> int:
        """Take the jobs whose last heartbeat is older."""
        return await self._lead(lambda queue: queue.requeue_stale(timeout))

    async def read_object(self, name: str) -> bytes:
        """The content of an object beside the queue, or of the queue itself, whose name is empty."""
        return await self._lead(lambda queue: queue.read_object(name))

    async def create_object(self, name: str, content: bytes) -> None:
        """Create a segment or a payload."""
        if version_of(name) is None:
            raise ConfigurationError(f"clients create segments and payloads, not {name!r}")
        await self._lead(lambda queue: queue.create_object(name, content))

    async def collect_garbage(self, *, dry_run: bool) -> list[ObjectInfo]:
        """Remove the objects that nothing refers to."""
        return await self._lead(lambda queue: queue.collect_garbage(dry_run=dry_run))

    async def _lead(self, work: Callable[[ServedQueue], Awaitable[T]]) -> T:
        return await self._broker.lead(work)


def _check_batch_size(batch_size: int) -> None:
    if not 1 <= batch_size <= _BATCH_SIZE_MAX:
        raise ConfigurationError(f"a batch_size is from 1 to {_BATCH_SIZE_MAX}, not {batch_size}")


def _checked(operation: Operation) -> Operation:
    """The operation, if it can be applied without harm; it comes from another process."""
    match operation:
        case Enqueue():
            for job in operation.jobs:
                check_new_job(job.entrypoint, job.priority, job.max_attempts)
        case Dequeue():
            _check_batch_size(operation.batch_size)
        case Ack() if operation.result and not is_json_line(operation.result):
            raise PayloadError("the result is not JSON in one line, or nests too deeply")
        case Transact():
            return Transact(tuple(map(_checked, operation.operations)))
    return operation
