"""Many jobs at once: made one by one from any iterable, and loaded with few of them in memory.

    payloads ──▶ jobs ──▶ segment ──▶ object
                     ──▶ segment ──▶ object     at the end one commit refers to them all
                     ──▶ …

Until that commit nothing has been enqueued. If it never comes, the objects are collected.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import chain, islice

from msgspec.structs import replace

from bucketq.clock import Clock
from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    OutcomeUnknownError,
    QueueFullError,
    StorageError,
)
from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.mint import JobIds, Mint
from bucketq.operation import Enqueue, EnqueueSegments, Operation, Refresh, Submit
from bucketq.payload import LargePayloads
from bucketq.segment import Segment
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects

# So many jobs at most, within so much time, share a time stamp and follow each other in their ids.
_JOBS_PER_MOMENT = 5000
_MOMENT = timedelta(seconds=1)
# Those that wait for others are in queue.json itself until they may run.
_BLOCKED_MAX = 10_000

Wrap = Callable[[Enqueue | EnqueueSegments], Operation]


class NewJobs(Iterator[Job]):
    """Makes a job of each payload, and keeps the ids. The jobs are numbered from 1."""

    def __init__(self, model: Job, payloads: Iterator[bytes], clock: Clock, mint: Mint) -> None:
        self.ids = JobIds()
        self._model = model
        self._payloads = payloads
        self._clock = clock
        self._mint = mint
        self._takes_turns = model.tenant is not None and model.status is JobStatus.QUEUED

    def __next__(self) -> Job:
        payload = next(self._payloads)
        now = self._clock.now()
        if len(self.ids) % _JOBS_PER_MOMENT == 0 or now - self._model.created_at > _MOMENT:
            self.ids.begin(self._mint.first_id(now))
            self._model = replace(self._model, created_at=now)
        job = replace(self._model, id=self.ids.mint(), payload=payload, sequence=len(self.ids))
        return replace(job, turn=job.sequence) if self._takes_turns else job


class BulkLoad:
    """Enqueues jobs of one entrypoint and one priority, all or none; `submit` commits.

    `wrap` makes the operation to be committed of the one that adds the jobs.
    """

    def __init__(
        self,
        objects: SideObjects | None,
        payloads: LargePayloads,
        settings: Settings,
        submit: Submit,
        wrap: Wrap = lambda operation: operation,
    ) -> None:
        self._objects = objects
        self._payloads = payloads
        self._settings = settings
        self._submit = submit
        self._wrap = wrap

    async def enqueue(self, jobs: Iterator[Job], *, are_blocked: bool = False) -> None:
        """Enqueue all of them: a few directly, many by way of segments; directly if they wait for others."""
        if self._objects is None:
            await self._submit(self._wrap(Enqueue(tuple(self._all(jobs)))))
            return
        few = self._few_blocked(jobs) if are_blocked else self._few(jobs)
        if (first_of_many := next(jobs, None)) is not None:
            await self._load(self._objects, chain(few, [first_of_many], jobs))
        elif few:
            stowed = await self._payloads.stow_all(few)
            await self._payloads.submit(self._wrap(Enqueue(stowed)), stowed)

    def _all(self, jobs: Iterator[Job]) -> Iterator[Job]:
        size = 0
        for job in jobs:
            size += line_bytes(job)
            if size > self._settings.queue_bytes_max:
                raise QueueFullError(
                    f"so many jobs do not fit into queue.json ({self._settings.queue_bytes_max} bytes,"
                    " queue_bytes_max), and this storage, of two methods, has no other place for them."
                    " Nothing was enqueued."
                )
            yield job

    def _few(self, jobs: Iterator[Job]) -> list[Job]:
        """As many as leave room in queue.json for others."""
        few: list[Job] = []
        size = 0
        while len(few) < self._settings.hot_jobs_max // 2 and size < self._settings.hot_bytes_max // 2:
            job = next(jobs, None)
            if job is None:
                break
            few.append(job)
            size += line_bytes(job)
        return few

    def _few_blocked(self, jobs: Iterator[Job]) -> list[Job]:
        few = list(islice(jobs, _BLOCKED_MAX + 1))
        if len(few) > _BLOCKED_MAX:
            raise ConfigurationError(
                f"no more than {_BLOCKED_MAX} jobs at once can wait for others; enqueue one job that"
                " enqueues them when its turn comes. Nothing was enqueued."
            )
        return few

    async def _load(self, objects: SideObjects, jobs: Iterable[Job]) -> None:
        version: int = await self._submit(Refresh())
        segments: list[Segment] = []
        try:
            async for segment, _ in objects.create_segments(self._stowed(jobs, version), version):
                segments.append(segment)
        except Exception:
            # Such as a payload that is no JSON. Large payloads are left to the collector.
            await _discard(objects, segments)
            raise
        try:
            await self._submit(self._wrap(EnqueueSegments(tuple(segments))))
        except BucketQError as error:
            # Of any other error it is not certain that nothing was enqueued.
            if not isinstance(error, OutcomeUnknownError):
                await _discard(objects, segments)
            raise

    async def _stowed(self, jobs: Iterable[Job], version: int) -> AsyncIterator[Job]:
        for job in jobs:
            yield await self._payloads.stow(job, version) if self._payloads.is_large(job) else job


async def _discard(objects: SideObjects, segments: list[Segment]) -> None:
    with suppress(StorageError, OSError):
        await objects.delete(segment.name for segment in segments)
