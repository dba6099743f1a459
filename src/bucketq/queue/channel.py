"""Channel: how a queue's operations get to where they are committed, and how they are made."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from bucketq.archive import Archive
from bucketq.clock import Clock, SystemClock
from bucketq.ending import Ending
from bucketq.errors import (
    JobNotFoundError,
    ParentsUnknownError,
    QueueClosedError,
    TooLargeError,
)
from bucketq.job import Job
from bucketq.mint import Mint
from bucketq.new_job import JobOptions, check_name, new_job, with_trace
from bucketq.operation import Adopt, Enqueue, EnqueueBatch, Operation, Transact, enqueued_by, knowing
from bucketq.payload import LargePayloads, payload_bytes
from bucketq.pending import IfAbandoned, ignore
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.storage.port import Bucket, ObjectStoragePort
from bucketq.tracing.switch import TRACING
from bucketq.wanted import Wanted


class Channel(ABC):
    """What every part of a queue is made of: where it is, its settings, and `_send`."""

    def __init__(
        self,
        storage: ObjectStoragePort,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        # As it was given; and as it is asked.
        self.storage = self._storage = storage
        self.settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._mint = mint or Mint()
        self._worker: str | None = None
        self._objects = (
            SideObjects(storage.objects, self.settings, self._clock, self._mint)
            if isinstance(storage, Bucket)
            else None
        )
        self._payloads = LargePayloads(
            self._objects, self.settings.payload_inline_max, self._clock, self._submit
        )

    @property
    def worker(self) -> str:
        """What the archive calls whoever claims jobs through this queue: host:pid, or what you set."""
        return self._worker or f"{socket.gethostname()}:{os.getpid()}"

    @worker.setter
    def worker(self, name: str) -> None:
        check_name("a worker's name", name)
        self._worker = name

    async def apply(self, operation: Operation) -> Any:
        """Have an operation committed by itself; its large payloads go to objects first."""
        stowed = await self._stowed(operation)
        both = zip(enqueued_by(operation), enqueued_by(stowed), strict=True)
        # Those that were objects before are not ours to remove.
        return await self._payloads.submit(stowed, [new for old, new in both if old.payload_object is None])

    async def _stowed(self, operation: Operation) -> Operation:
        """The operation, with its large payloads in objects."""
        if isinstance(operation, EnqueueBatch):
            then = await self._payloads.stow(operation.then)
            return replace(operation, then=then, part=await self._stowed(operation.part))
        if not any(map(self._payloads.is_large, enqueued_by(operation))):
            return operation
        if isinstance(operation, Transact):
            return Transact(tuple([await self._stowed(part) for part in operation.operations]))
        if isinstance(operation, Enqueue):
            return replace(operation, jobs=await self._payloads.stow_all(operation.jobs))
        if isinstance(operation, Adopt):
            return operation.with_jobs(await self._payloads.stow_all(operation.jobs))
        return operation

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        answer = self._send(operation, if_abandoned)
        try:
            return await answer
        except ParentsUnknownError as error:
            return await self._submit(await self._knowing(operation, error.job_ids), if_abandoned)
        except asyncio.CancelledError:
            # The answer may have come in the same instant in which its caller was cancelled.
            came = answer.done() and not answer.cancelled() and answer.exception() is None
            if came and if_abandoned:
                self._make_amends(if_abandoned(answer.result()))
            raise

    def _make_amends(self, amends: Operation | None) -> None:
        if amends is not None:
            with suppress(QueueClosedError):
                self._send(amends).add_done_callback(ignore)

    async def _knowing(self, operation: Operation, job_ids: Iterable[str]) -> Operation:
        """The operation, with how the jobs ended that it waits for. Raises JobNotFoundError."""
        finished = {}
        for job_id in job_ids:
            ending = await self._find_archived(job_id)
            if ending is None:
                raise JobNotFoundError(
                    job_id, f"job {job_id}, to wait for, is neither in the queue nor in its archive"
                )
            finished[job_id] = ending.succeeded
        return knowing(operation, finished)

    async def _find_archived(self, job_id: str) -> Ending | None:
        if not isinstance(self._storage, Bucket):
            return None
        found = await Archive(self._storage, clock=self._clock).find(job_id)
        return None if found is None else Ending.of(found)

    @abstractmethod
    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        """Have the operation committed; the future brings its answer."""

    @abstractmethod
    async def _wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""

    async def _wait_finished(self, job: Job, timeout_s: float) -> None:
        """Return once the job, seen like this, may be finished, or when the time is up."""
        await asyncio.sleep(timeout_s)

    def _new_job(self, entrypoint: str, payload: Any, priority: int, options: JobOptions) -> Job:
        """A job to be enqueued, of the trace that is under way here, if any."""
        job = self._model(entrypoint, payload, priority, options)
        if TRACING.spans is None or job.traceparent is not None:
            return job
        return with_trace(job, TRACING.spans.current())

    def _model(self, entrypoint: str, payload: Any, priority: int, options: JobOptions) -> Job:
        now = self._clock.now()
        job = new_job(self._mint.job_id(now), entrypoint, b"", priority, now, options)
        return replace(job, payload=self._content(entrypoint, payload))

    def _content(self, entrypoint: str, payload: Any) -> bytes:
        content = payload_bytes(payload)
        limit, setting = self.settings.payload_bytes_max, "payload_bytes_max"
        if self._objects is None and limit > self.settings.queue_bytes_max // 2:
            limit, setting = self.settings.queue_bytes_max // 2, "half of queue_bytes_max"
        if len(content) > limit:
            raise TooLargeError(
                f"the payload for {entrypoint!r} has {len(content)} bytes; the limit is {limit} ({setting})."
                " Store it elsewhere and enqueue a reference to it."
            )
        return content
