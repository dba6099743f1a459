"""HeartbeatManager: keeps a claim alive while the work is done, and tells if it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from bucketq.errors import ConfigurationError, JobNotFoundError
from bucketq.job import Claim, Job
from bucketq.log_fields import fields_of
from bucketq.progress import check_progress

log = logging.getLogger("bucketq")


class HasHeartbeat(Protocol):
    """Anything with a `heartbeat`, such as every queue."""

    @property
    def heartbeat(self) -> Callable[..., Awaitable[None]]:
        """Say that the job's worker lives, and, if it wants to, its `progress` and a `note`."""
        ...


class HasJob(Protocol):
    """Anything with a `job`, such as a TypedJob."""

    @property
    def job(self) -> Job:
        """The job."""
        ...


class HeartbeatManager:
    """Sends a heartbeat for a job every `interval` (a timedelta, or seconds) while its block runs.

        async with HeartbeatManager(q, job):
            await transcode(job.payload)
        await q.ack(job)

    When the claim is lost, the work inside the block is somebody else's now: the block
    is cancelled and raises ClaimLostError (JobNotFoundError if the job is gone). Give
    `on_lost` to be called with that error instead. A storage that cannot be reached is
    no lost claim: the next beat tries again. Acknowledge after the block, not inside it: a
    finished job has no claim left to keep alive.

    How far the work is goes along with the next heartbeat:

        async with HeartbeatManager(q, job) as beat:
            for page in range(10):
                beat.report(page / 10, f"page {page} of 10")
    """

    def __init__(
        self,
        queue: HasHeartbeat,
        job: Job | Claim | str | HasJob,
        interval: timedelta | float = timedelta(seconds=60),
        on_lost: Callable[[JobNotFoundError], object] | None = None,
    ) -> None:
        given: Any = job
        self._job: Job | Claim | str = getattr(given, "job", given)
        Claim.of(self._job)
        self._queue = queue
        self._interval_s = interval.total_seconds() if isinstance(interval, timedelta) else interval
        if not self._interval_s > 0:
            raise ConfigurationError(f"a heartbeat needs an interval above 0, not {interval}")
        self._on_lost = on_lost
        self._lost: JobNotFoundError | None = None
        self._worker: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._beating: asyncio.Task[None] | None = None
        self._said: dict[str, Any] = {}

    def report(self, progress: float | None = None, note: str | None = None) -> None:
        """Say with the next heartbeat how far the work is, from 0 to 1, and more as a text."""
        check_progress(progress, note)
        said = {"progress": progress, "note": note}
        self._said |= {name: value for name, value in said.items() if value is not None}

    async def __aenter__(self) -> Self:
        self._worker = asyncio.current_task()
        assert self._worker is not None
        self._cancelling = self._worker.cancelling()
        self._beating = asyncio.create_task(self._beat(), name="bucketq heartbeat")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._worker is not None
        assert self._beating is not None
        self._beating.cancel()
        await asyncio.wait([self._beating])
        if self._lost is not None and self._on_lost is None:
            # Somebody else may have cancelled the worker too: theirs goes first.
            is_ours_alone = self._worker.uncancel() <= self._cancelling
            if is_ours_alone and exc_type is asyncio.CancelledError:
                raise self._lost from None

    async def _beat(self) -> None:
        while self._lost is None:
            await asyncio.sleep(self._interval_s)
            try:
                await self._queue.heartbeat(self._job, **self._said)
            except JobNotFoundError as lost:
                self._report(lost)
            except Exception as error:
                # Whatever it was: a heart that stops without a word costs the job.
                log.warning(
                    "a heartbeat did not get through, the next one may: %s",
                    error,
                    extra=fields_of(self._job) if isinstance(self._job, Job) else None,
                )

    def _report(self, lost: JobNotFoundError) -> None:
        assert self._worker is not None
        self._lost = lost
        if self._on_lost is not None:
            try:
                self._on_lost(lost)
            except Exception:
                log.exception("on_lost itself failed")
        else:
            self._worker.cancel()
