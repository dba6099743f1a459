"""Settling: the queue is told how attempts ended, in bulk.

    outcome ──▶ gather ──▶ ack_many, nack, … ── landed, or refused ──▶ forgotten
                  ▲            └─ storage trouble ──▶ again, after a pause
                  └── while one settling is under way, the next one gathers

What is finished is told until the queue has answered. When the answer to an `ack` is lost, and the next
one says that there is no such job, then the first one had landed.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Raw

from bucketq.app.outcome import Completed, Crashed, Failed, Interrupted, Outcome, Rejected
from bucketq.errors import ConfigurationError, ForbiddenError, JobNotFoundError, KeyTakenError, PayloadError
from bucketq.job import Claim, Job
from bucketq.log_fields import fields_of
from bucketq.operation import Crash
from bucketq.queue import Queue
from bucketq.retry import PATIENT, Decision, Failure, GiveUp

log = logging.getLogger("bucketq")

# Why the calls of a job that is done are refused, for ever.
_NEVER_FITS = (PayloadError, ConfigurationError, KeyTakenError, JobNotFoundError, ForbiddenError)


async def settle(queue: Queue, job: Job, outcome: Outcome) -> None:
    """Tell how one attempt ended. Raises what `ack` and `nack` raise, ClaimLostError among them."""
    match outcome:
        case Completed(result, ()):
            await queue.ack(job, Raw(result) if result else None)
        case Completed(result, calls):
            async with queue.transaction() as transaction:
                transaction.ack(job, Raw(result) if result else None)
                for call in calls:
                    transaction.enqueue(call.entrypoint, call.payload, call.priority, **call.options)
        case Failed(error, trace, retry_in_s):
            await queue.nack(job, error, retry_in=retry_in_s, trace=trace)
        case Rejected(error, trace):
            await queue.nack(job, error, retry=_give_up, trace=trace)
        case Interrupted():
            await queue.release(job)
        case Crashed():
            await queue.apply(Crash(Claim.of(job), datetime.now(UTC)))


class Ended(NamedTuple):
    """A job whose attempt has ended, and how."""

    job: Job
    outcome: Outcome


class Settling:
    """Settles what has ended, all that has since the last time in one go.

    `on_settled` is called after each time.
    """

    def __init__(self, queue: Queue, on_settled: Callable[[], None]) -> None:
        self._queue = queue
        self._on_settled = on_settled
        self._gathered: list[Ended] = []
        self._under_way: list[Ended] = []
        self._something = asyncio.Event()

    def __len__(self) -> int:
        """How many have ended, and are not settled."""
        return len(self._gathered) + len(self._under_way)

    def jobs(self) -> Iterator[Job]:
        """Those jobs: their claims have to be kept alive."""
        return (ended.job for ended in (*self._gathered, *self._under_way))

    def add(self, job: Job, outcome: Outcome) -> None:
        """Have the queue told how an attempt ended."""
        self._gathered.append(Ended(job, outcome))
        self._something.set()

    async def run(self) -> None:
        """Settle whatever is added; never returns."""
        failures = 0
        while True:
            await self._something.wait()
            self._something.clear()
            self._under_way, self._gathered = self._gathered, []
            left = await self._settle(self._under_way)
            self._gathered[:0] = left
            self._under_way = []
            self._on_settled()
            failures = failures + 1 if left else 0
            if left:
                self._something.set()
                await asyncio.sleep(PATIENT.delay_s(failures - 1, random.random()))

    async def _settle(self, batch: list[Ended]) -> list[Ended]:
        """Tell the queue; return what it could not be told."""
        done = [ended for ended in batch if type(ended.outcome) is Completed and not ended.outcome.calls]
        if len(done) == len(batch):
            return await self._ack(done)
        others = [ended for ended in batch if type(ended.outcome) is not Completed or ended.outcome.calls]
        left = await asyncio.gather(self._ack(done), *map(self._settle_one, others))
        return [ended for part in left for ended in part]

    async def _ack(self, batch: list[Ended]) -> list[Ended]:
        jobs = [ended.job for ended in batch]
        results = [ended.outcome.result for ended in batch if isinstance(ended.outcome, Completed)]
        try:
            if any(results):
                raws = [Raw(result) if result else None for result in results]
                refused = await self._queue.ack_many(jobs, results=raws)
            else:
                refused = await self._queue.ack_many(jobs)
        except Exception as error:
            _log_trouble(len(batch), error)
            return batch
        by_id = {job.id: job for job in jobs} if refused else {}
        for lost in refused:
            log.warning("a result is dropped: %s", lost, extra=fields_of(by_id[lost.job_id]))
        return []

    async def _settle_one(self, ended: Ended) -> list[Ended]:
        job, outcome = ended
        try:
            await settle(self._queue, job, outcome)
        except Exception as error:
            if isinstance(error, JobNotFoundError) and error.job_id == job.id:
                log.warning("an outcome is dropped: %s", error, extra=fields_of(job))
                return []
            if isinstance(outcome, Completed) and isinstance(error, _NEVER_FITS):
                return [Ended(job, Rejected(f"it ran, but what it enqueues was refused: {error}"))]
            _log_trouble(1, error)
            return [ended]
        return []


def _log_trouble(count: int, error: Exception) -> None:
    log.warning("%d finished jobs could not be settled, trying again: %s", count, error)


def _give_up(failure: Failure) -> Decision:
    return GiveUp()
