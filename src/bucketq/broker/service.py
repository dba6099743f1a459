"""Service: what a broker does for its clients, whatever language they speak it in.

A shell (gRPC and others) turns messages into these calls, and answers and errors into messages.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.account import Spending
from bucketq.broker.access import Caller, Role
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Broker
from bucketq.broker.holdings import announced
from bucketq.broker.inspection import check_length, check_sizes, check_wanted, inspected
from bucketq.broker.redaction import redacted
from bucketq.broker.served import ServedQueue
from bucketq.broker.turnstile import Turnstile
from bucketq.broker.under_way import UnderWay
from bucketq.ending import Ending
from bucketq.errors import BucketQError, ConfigurationError, StorageError, TooLargeError
from bucketq.job import Claim, Job, JobStatus
from bucketq.listing import PAGE_SIZE, PAGE_SIZE_MAX, Page
from bucketq.object_name import version_of
from bucketq.operation import (
    BATCH_OPERATIONS_MAX,
    Answers,
    Dequeue,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    Operation,
    Refuse,
    SettleSegment,
    bytes_of,
    claims_of,
    enqueued_by,
)
from bucketq.operation.settlements import Cancel, SettleMany
from bucketq.state import Stats
from bucketq.storage.port import ObjectInfo, ObjectPage, check_object_name
from bucketq.wanted import Wanted

# A client that wants to wait longer asks again.
WAIT_MAX_S = 300.0
# About what an operation, a job or a claim takes in memory without its payload.
_OBJECT_BYTES = 1000


class Service:
    """The operations on a queue, by way of the broker that leads; others raise NotLeaderError."""

    def __init__(
        self, broker: Broker, allowance: Allowance | None = None, turnstile: Turnstile | None = None
    ) -> None:
        self.broker = broker
        self._allowance = allowance or Allowance()
        self._turnstile = turnstile or Turnstile(self._allowance)
        self._under_way = UnderWay[Answers]()

    def wait(self, caller: Caller, wait_s: float) -> AbstractContextManager[None]:
        """Have a call that may wait for so long counted while the block runs. Raises TooManyRequestsError."""
        return self._turnstile.wait(caller.client) if wait_s > 0 else nullcontext()

    def check_amount(self, jobs: int) -> None:
        """Raise TooLargeError if these are too many jobs for one call."""
        if jobs > self._allowance.batch_max:
            raise TooLargeError(
                f"one call takes up to {self._allowance.batch_max} jobs, not {jobs}: send several calls"
            )

    def _sized(self, operation: Operation) -> Operation:
        """The operation, if it is not too large. A claim gets fewer jobs than it wants."""
        if isinstance(operation, Dequeue):
            return replace(operation, batch_size=min(operation.batch_size, self._allowance.batch_max))
        parts = len(operation.parts) if isinstance(operation, SettleMany) else 0
        self.check_amount(max(len(enqueued_by(operation)), sum(1 for _ in claims_of(operation)), parts))
        most = self.broker.settings.payload_bytes_max
        for size in (max(len(job.payload), job.payload_size) for job in _new_jobs(operation)):
            if size > most:
                raise TooLargeError(f"a payload has {most} bytes at most, not {size}")
        return operation

    async def apply(self, operation: Operation, caller: Caller) -> Any:
        """Apply one operation by itself: new jobs, or a transaction."""
        caller.check(operation)
        checked = inspected(self._sized(operation))

        async def perform(queue: ServedQueue) -> Any:
            check_sizes(_payloads(checked), await queue.payload_sizes(name for name, _ in _payloads(checked)))
            return await queue.apply(checked)

        return await self.broker.lead(perform)

    async def dequeue(
        self, wanted: Wanted, batch_size: int, wait_s: float, worker: str | None = None
    ) -> list[Job]:
        """Claim jobs; wait for some if there are none."""
        check_wanted(wanted)
        size, wait = min(batch_size, self._allowance.batch_max), min(wait_s, WAIT_MAX_S)
        with announced():
            return await self.broker.lead(
                lambda queue: queue.dequeue(wanted, batch_size=size, wait=wait, worker=worker),
                if_abandoned=ServedQueue.give_back,
            )

    async def heartbeat(self, claim: Claim, progress: float | None = None, note: str | None = None) -> None:
        """A worker lives, and is so far."""
        await self.broker.lead(lambda queue: queue.heartbeat(claim, progress, note))

    async def ack(self, claim: Claim, result: bytes = b"") -> None:
        """A job is done; its result, if any, is JSON."""
        await self.broker.lead(lambda queue: queue.ack(claim, msgspec.Raw(result) if result else None))

    async def nack(self, claim: Claim, error: str | None, retry_in_s: float) -> Job:
        """A job failed."""
        return await self.broker.lead(lambda queue: queue.nack(claim, error, retry_in=retry_in_s))

    async def find_archived(self, job_id: str) -> Ending | None:
        """How a job ended that is not in the queue any more; None if there never was one."""
        return await self.broker.lead(lambda queue: queue.find_archived(job_id))

    async def cancel(self, job_id: str) -> Job:
        """A job is not wanted any more."""
        check_length("a job's id", job_id)
        return await self.broker.lead(lambda queue: queue.cancel(job_id))

    async def redrive(self, job_id: str) -> Job:
        """A dead job is done again, as a new one."""
        check_length("a job's id", job_id)
        return await self.broker.lead(lambda queue: queue.redrive(job_id))

    async def discard(self, job_id: str) -> None:
        """A dead job is forgotten."""
        check_length("a job's id", job_id)
        await self.broker.lead(lambda queue: queue.discard(job_id))

    async def batch(
        self, session: str, number: int, seen_version: int, operations: Sequence[Operation], caller: Caller
    ) -> Answers:
        """Apply a client's numbered batch, once, however often it is sent."""
        check_length("a session", session)
        if number < 1:
            raise ConfigurationError("batches are numbered from 1 on")
        if len(operations) > BATCH_OPERATIONS_MAX:
            raise TooLargeError(
                f"a batch has up to {BATCH_OPERATIONS_MAX} operations, not {len(operations)}: send several"
            )

        async def perform(queue: ServedQueue) -> Answers:
            sizes = await queue.payload_sizes(name for one in operations for name, _ in _payloads(one))
            checked = [await self._inspected_or_refused(queue, one, caller, sizes) for one in operations]
            return await queue.perform(session, number, seen_version, checked)

        version, answers = await self._under_way.join(
            # A client asks for the version under the number of its last batch.
            (caller, session, number, tuple(map(type, operations))),
            sum(map(_size_of, operations)),
            lambda: self.broker.lead(perform),
        )
        return Answers(version, [_shown(*both, caller) for both in zip(operations, answers, strict=True)])

    async def _inspected_or_refused(
        self, queue: ServedQueue, operation: Operation, caller: Caller, sizes: Mapping[str, int]
    ) -> Operation:
        given = operation
        try:
            caller.check(operation)
            operation = inspected(caller.limited(self._sized(operation)))
            check_sizes(_payloads(operation), sizes)
            if isinstance(operation, EnqueueSegments):
                operation = await queue.checked_segments(operation)
            if isinstance(operation, EnqueueBatch) and isinstance(operation.part, EnqueueSegments):
                part = await queue.checked_segments(operation.part, operation.then.id)
                operation = replace(operation, part=part)
            if isinstance(operation, SettleSegment):
                await queue.check_settlement(operation)
            return operation
        except BucketQError as error:
            # As an operation: of a batch that is sent again it may have been applied, and used up, before.
            return Refuse(error, given)

    async def wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""
        check_wanted(wanted)
        await self.broker.lead(lambda queue: queue.wait_ready(wanted, min(timeout_s, WAIT_MAX_S)))

    async def stats(self) -> Stats:
        """How many jobs there are, and were."""
        return await self.broker.lead(lambda queue: queue.stats())

    def spending(self) -> Spending:
        """What the storage was asked, and what that costs. Raises NotLeaderError."""
        self.broker.check_leading()
        return self.broker.spending

    async def list_jobs(
        self,
        status: JobStatus | None,
        entrypoint: str | None,
        page_size: int,
        page_token: str,
        caller: Caller,
    ) -> Page:
        """One page of the jobs that are in the queue."""
        size = min(page_size or PAGE_SIZE, PAGE_SIZE_MAX)
        page = await self.broker.lead(lambda queue: queue.served_page(page_token, size, status, entrypoint))
        return page._replace(jobs=list(map(caller.shown, page.jobs)))

    async def read_object(self, name: str, caller: Caller) -> bytes:
        """The content of an object beside the queue, or of the queue itself, whose name is empty."""
        _check_object_name(name or "queue.json")
        with announced():
            content = await self.broker.lead(lambda queue: queue.read_object(name))
        return content if name or caller.may(Role.ADMIN) else redacted(content)

    @property
    def object_bytes_max(self) -> int:
        """How long an object may be that a client creates."""
        return self.broker.settings.payload_bytes_max

    async def create_object(self, name: str, content: bytes) -> None:
        """Create a segment, a payload or a staged part."""
        if version_of(name) is None:
            raise ConfigurationError(f"clients create segments, payloads and staged parts, not {name!r}")
        await self.broker.lead(lambda queue: queue.create_object(name, content))

    async def list_objects(self, prefix: str, after: str) -> ObjectPage:
        """The next of the objects beside the queue whose name begins with `prefix`."""
        # As long as something may follow the prefix that makes it a name.
        _check_object_name(f"{prefix}x")
        return await self.broker.lead(lambda queue: queue.list_objects(prefix, after))

    async def collect_garbage(self, *, dry_run: bool) -> list[ObjectInfo]:
        """Remove the objects that nothing refers to."""
        return await self.broker.lead(lambda queue: queue.collect_garbage(dry_run=dry_run))


def _new_jobs(operation: Operation) -> list[Job]:
    jobs = enqueued_by(operation)
    return [*jobs, operation.then] if isinstance(operation, EnqueueBatch) else jobs


def _payloads(operation: Operation) -> list[tuple[str, int]]:
    """The objects that new jobs name as their payloads, with their sizes."""
    jobs = _new_jobs(operation)
    return [(job.payload_object, job.payload_size) for job in jobs if job.payload_object is not None]


def _size_of(operation: Operation) -> int:
    jobs = enqueued_by(operation)
    objects = 1 + len(jobs) + sum(1 for _ in claims_of(operation))
    return _OBJECT_BYTES * objects + sum(len(one) for job in jobs for one in job.after) + bytes_of(operation)


def _check_object_name(name: str) -> None:
    try:
        check_object_name(name)
    except StorageError as error:
        # Not a failure of the storage, to be tried again.
        raise ConfigurationError(str(error)) from error


def _shown(operation: Operation, answer: Any, caller: Caller) -> Any:
    """An answer as its caller may see it. Those who claim jobs get their tokens."""
    if isinstance(answer, Job):
        return caller.shown(answer)
    if isinstance(operation, Enqueue) and isinstance(answer, list):
        return [caller.shown(job) for job in answer]
    if isinstance(operation, Find | Cancel) and isinstance(answer, list):
        return [caller.shown_segment(segment) for segment in answer]
    return answer
