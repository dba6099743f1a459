"""Service: what a broker does for its clients, whatever language they speak it in.

A shell (gRPC and others) turns messages into these calls, and answers and errors into messages.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from bucketq.broker.broker import Broker
from bucketq.broker.listing import Page, list_jobs
from bucketq.broker.served import ServedQueue
from bucketq.election import Leader
from bucketq.errors import ConfigurationError
from bucketq.job import Claim, Job, JobStatus
from bucketq.object_name import version_of
from bucketq.operation import (
    Ack,
    Answers,
    Bury,
    Dequeue,
    Enqueue,
    Nack,
    Operation,
    RequeueSilent,
    Transact,
)
from bucketq.queue import check_new_job
from bucketq.state import Stats
from bucketq.storage.port import ObjectInfo
from bucketq.transaction import error_text, result_json

T = TypeVar("T")

# A client that wants to wait longer asks again.
WAIT_MAX_S = 300.0
_BATCH_SIZE_MAX = 10_000
# Of ids, tokens, sessions and workers: much longer ones would make every commit slow.
_NAME_MAX = 250


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

    async def apply(self, operation: Operation) -> Any:
        """Apply one operation by itself: new jobs, or a transaction."""
        checked = _checked(operation)
        return await self._lead(lambda queue: queue.apply(checked))

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

    async def batch(
        self, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        """Apply a client's numbered batch, once, however often it is sent."""
        _check_name("a session", session)
        if number < 1:
            raise ConfigurationError("batches are numbered from 1 on")
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


def _check_name(what: str, name: str) -> None:
    if not 1 <= len(name) <= _NAME_MAX:
        raise ConfigurationError(f"{what} has from 1 to {_NAME_MAX} characters, not {len(name)}")


def _checked(operation: Operation) -> Operation:
    """The operation, if it can be applied without harm; it comes from another process."""
    match operation:
        case Enqueue():
            for job in operation.jobs:
                _check_name("a job's id", job.id)
                check_new_job(job.entrypoint, job.priority, job.max_attempts)
        case Dequeue():
            _check_batch_size(operation.batch_size)
            _check_name("a token", operation.token)
            _check_name("a worker's name", operation.worker or "?")
        case Ack() if operation.result:
            return replace(operation, result=result_json(msgspec.Raw(operation.result)))
        case Nack():
            return replace(operation, error=error_text(operation.error))
        case Bury():
            return replace(operation, error=error_text(operation.error) or "")
        case RequeueSilent() if operation.before > operation.now:
            raise ConfigurationError("a timeout is not below 0")
        case Transact():
            return Transact(tuple(map(_checked, operation.operations)))
    return operation
