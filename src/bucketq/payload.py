"""Payloads: what a job carries, in queue.json if it is small, else in an object of its own."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.clock import Clock
from bucketq.errors import (
    JobNotFoundError,
    KeyTakenError,
    ObjectNotFoundError,
    PayloadError,
    QueueFullError,
    StorageError,
    UnusableStorageError,
)
from bucketq.job import Claim, Job
from bucketq.log_fields import fields_of
from bucketq.operation import Bury, Nack, Operation, Refresh, Release, Submit
from bucketq.side_objects import SideObjects, unreachable


def payload_bytes(payload: Any) -> bytes:
    """The bytes of a payload: themselves, or anything else as JSON. Raises PayloadError."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    try:
        return msgspec.json.encode(payload)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"the payload is neither bytes nor JSON: {error}") from error


log = logging.getLogger("bucketq")


class LargePayloads:
    """Carries large payloads to objects and back; `submit` has an operation committed."""

    def __init__(
        self,
        objects: SideObjects | None,
        inline_max: int,
        clock: Clock,
        submit: Submit,
    ) -> None:
        self._objects = objects
        self._inline_max = inline_max
        self._clock = clock
        self._submit = submit

    def is_large(self, job: Job) -> bool:
        """Whether the job's payload has to go to an object."""
        return self._objects is not None and len(job.payload) > self._inline_max

    async def stow(self, job: Job, version: int | None = None) -> Job:
        """Write a large payload to an object; return the job as it is to be enqueued."""
        if self._objects is None or not self.is_large(job):
            return job
        if version is None:
            version = await self._submit(Refresh())
        name = await self._objects.create_payload(job.payload, version)
        return replace(job, payload=b"", payload_object=name, payload_size=len(job.payload))

    async def stow_all(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        """The same for several jobs; the queue's version is asked for once."""
        jobs = tuple(jobs)
        version = await self._submit(Refresh()) if any(map(self.is_large, jobs)) else None
        return tuple([await self.stow(job, version) for job in jobs])

    async def submit(self, operation: Operation, stowed: Iterable[Job]) -> Any:
        """Have an operation committed that enqueues stowed jobs; drop their payloads if it is refused."""
        try:
            return await self._submit(operation)
        except (QueueFullError, JobNotFoundError, KeyTakenError):
            # The queue itself said no, so nothing will ever refer to these objects.
            await self.drop(stowed)
            raise

    async def drop(self, stowed: Iterable[Job]) -> None:
        """Remove the payloads of jobs that were not enqueued; what is left will be collected."""
        names = [job.payload_object for job in stowed if job.payload_object is not None]
        if self._objects is not None:
            with suppress(StorageError, OSError):
                await self._objects.delete(names)

    async def read(self, job: Job) -> Job:
        """The job with its payload. Raises ObjectNotFoundError, or PayloadError if it was cut short."""
        if job.payload_object is None:
            return job
        if self._objects is None:
            raise unreachable(f"the payload of job {job.id} is")
        return replace(job, payload=await self._objects.read_payload(job.payload_object, job.payload_size))

    async def fetch(self, claimed: list[Job]) -> list[Job]:
        """The claimed jobs with their payloads.

        One whose payload is gone for good is dead. If the storage fails, what could not be
        fetched goes back to the queue; if it refuses, that costs an attempt.
        """
        outcomes = await asyncio.gather(*map(self.read, claimed), return_exceptions=True)
        fetched, failed = list[Job](), list[Claim]()
        failure: BaseException | None = None
        for job, outcome in zip(claimed, outcomes, strict=True):
            if isinstance(outcome, Job):
                fetched.append(outcome)
            elif isinstance(outcome, ObjectNotFoundError | PayloadError):
                log.warning("job %s is dead, its payload is lost: %s", job.id, outcome, extra=fields_of(job))
                await self._settle(Bury(Claim.of(job), f"its payload is lost: {outcome}", self._clock.now()))
            elif isinstance(outcome, UnusableStorageError):
                # It may be for this object only, and must not hold up the queue for ever.
                reason = f"its payload cannot be read: {outcome}"
                await self._settle(Nack(Claim.of(job), reason, self._clock.now()))
                failure = outcome
            else:
                failed.append(Claim.of(job))
                failure = outcome
        if failed:
            await self._submit(Release(tuple(failed)))
        if failure is not None and not fetched:
            raise failure
        return fetched

    async def _settle(self, operation: Operation) -> None:
        # Somebody else may have the job now, or have finished it: then the object may well be gone.
        with suppress(JobNotFoundError):
            await self._submit(operation)
