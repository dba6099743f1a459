"""Consuming: jobs are claimed, kept alive, and given back, done or not."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from bucketq.duration import Duration, seconds_of
from bucketq.errors import BucketQError, ConfigurationError, JobNotFoundError
from bucketq.failure import error_text, trace_text
from bucketq.job import Claim, Job
from bucketq.operation import Ack, AckMany, Bury, Dequeue, Heartbeat, Nack, Operation, Release, RequeueSilent
from bucketq.progress import check_progress
from bucketq.queue.channel import Channel
from bucketq.retry import Failure, Retry, RetryPolicy, decide
from bucketq.transaction import result_json
from bucketq.wanted import wanted_of


class Consuming(Channel):
    """Working on jobs."""

    async def dequeue(
        self,
        entrypoint: str | Collection[str] | None = None,
        *,
        batch_size: int = 1,
        wait: float | None = None,
        worker: str | None = None,
    ) -> list[Job]:
        """Claim up to `batch_size` jobs, of one entrypoint, of up to 100 in a list, or of any.

        With `wait`, an empty queue is watched for up to that many seconds. Returns an
        empty list if there is nothing to do. `worker` is what the archive calls whoever
        claims them, if not the queue's own `worker`.

            for job in await q.dequeue(["resize", "rotate"], batch_size=10, wait=20):
                ...
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        wanted = wanted_of(entrypoint)
        until_s = self._clock.monotonic_s() + wait if wait else None
        while True:
            token, now = self._mint.token(), self._clock.now()
            operation = Dequeue(wanted, batch_size, token, now, worker or self.worker)
            claimed: list[Job] | None = await self._submit(operation, if_abandoned=_release)
            if claimed is None:
                continue  # it was claimed through a broker, and lost again before the answer came
            jobs = await self._with_payloads(claimed)
            if claimed and not jobs:
                continue  # their payloads were lost, and they are dead now
            if jobs or until_s is None or (remaining_s := until_s - self._clock.monotonic_s()) <= 0:
                return jobs
            await self._wait_ready(wanted, remaining_s)

    async def ack(self, job: Job | Claim | str, result: Any = None) -> None:
        """The job is done: it leaves the queue. `result`, if any, goes to the archive.

        It is stored as JSON: dataclasses become objects, bytes base64 text, and NaN null.
        Raises ClaimLostError if the job was given to another worker meanwhile, and
        JobNotFoundError if it is not in the queue any more.
        """
        await self._submit(Ack(Claim.of(job), self._clock.now(), result_json(result)))

    async def ack_many(self, jobs: Iterable[Job | Claim | str]) -> list[JobNotFoundError]:
        """Acknowledge many jobs in one write; return an error for each that was refused."""
        claims = tuple(map(Claim.of, jobs))
        refused: list[JobNotFoundError] = (
            await self._submit(AckMany(claims, self._clock.now())) if claims else []
        )
        return refused

    async def nack(
        self,
        job: Job | Claim | str,
        error: str | BaseException | None = None,
        *,
        retry_in: Duration = 0.0,
        retry: RetryPolicy | None = None,
        trace: str | None = None,
    ) -> Job:
        """The job failed: it is tried again, or dead once its attempts are used up.

        `error` is kept with the job: a text, or the exception itself, with where it came
        from (for a text, `trace` may say that). It is tried again after `retry_in`, or as a
        policy says (see `bucketq.retry`). Returns the job as it stands now. Raises what `ack` raises.

            await q.nack(job, error, retry_in=30)
            await q.nack(job, error, retry=exponential(first_s=1, cap_s=600))
        """
        chance = 0.5 if retry is None else self._mint.jitter()
        operation = failed(job, error, self._clock.now(), retry_in, retry, chance, trace)
        given_back: Job | None = await self._submit(operation)
        if given_back is None:
            # It was given back through a broker, and had moved on before the answer came.
            job_id = operation.claim.job_id
            raise JobNotFoundError(job_id, f"job {job_id} was given back, and has moved on since")
        return given_back

    async def release(self, *jobs: Job | Claim | str) -> None:
        """The worker leaves, and gives its jobs back: others take them, and it costs no attempt.

        What it does not hold any more is passed over.
        """
        await self._submit(Release(tuple(map(Claim.of, jobs)), self._clock.now()))

    async def heartbeat(
        self, job: Job | Claim | str, progress: float | None = None, note: str | None = None
    ) -> None:
        """The worker is alive and busy with the job. Raises what `ack` raises.

        It may say how far it is, from 0 to 1, and more in up to 500 characters; `find` tells
        others, until the claim ends.

            await q.heartbeat(job, progress=0.4, note="page 4 of 10")
        """
        check_progress(progress, note)
        await self._submit(Heartbeat(Claim.of(job), self._clock.now(), progress, note))

    async def requeue_stale(self, timeout: timedelta) -> int:
        """Take every job whose last heartbeat is older than `timeout`; return how many.

        For a process too short-lived to watch the heartbeats itself: it compares time
        stamps, so the clocks of the machines should agree to well within `timeout`.
        """
        requeued: int = await self._submit(RequeueSilent(self._clock.now() - timeout, self._clock.now()))
        return requeued

    async def _with_payloads(self, claimed: list[Job]) -> list[Job]:
        if all(job.payload_object is None for job in claimed):
            return claimed
        beating = asyncio.create_task(self._keep_alive(claimed), name="bucketq heartbeat")
        try:
            return await self._payloads.fetch(claimed)
        except asyncio.CancelledError:
            self._make_amends(_release(claimed))
            raise
        finally:
            beating.cancel()

    async def _keep_alive(self, claimed: list[Job]) -> None:
        while True:
            await asyncio.sleep(self.settings.stale_after_s / 3)
            for job in claimed:
                with suppress(BucketQError):
                    await self.heartbeat(job)


def failed(
    job: Job | Claim | str,
    error: str | BaseException | None,
    now: datetime,
    retry_in: Duration = 0.0,
    retry: RetryPolicy | None = None,
    chance: float = 0.5,
    trace: str | None = None,
) -> Nack | Bury:
    """How an attempt at a job ended that failed: it is tried again, or given up if its policy says so."""
    claim, text, trace = Claim.of(job), error_text(error), trace or trace_text(error)
    outcome = Nack(claim, text, now, seconds_of(retry_in, "retry_in"), trace)
    if retry is None:
        return outcome
    if retry_in:
        raise ConfigurationError("give retry_in, or retry with a policy that decides, not both")
    if not isinstance(job, Job):
        raise ConfigurationError("a retry policy needs the Job that dequeue gave, not an id")
    exception = error if isinstance(error, BaseException) else None
    decision = decide(retry, Failure(job, job.failures, text or "", exception, chance))
    if isinstance(decision, Retry):
        return replace(outcome, retry_in_s=seconds_of(decision.after_s, "the policy's delay"))
    return Bury(claim, text or "given up", now, trace)


def _release(claimed: list[Job] | None) -> Operation | None:
    return Release(tuple(map(Claim.of, claimed))) if claimed else None
