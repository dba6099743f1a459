"""Consuming: jobs are claimed, kept alive, and given back, done or not."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from bucketq.duration import Duration, seconds_of
from bucketq.errors import BucketQError, ConfigurationError, JobNotFoundError
from bucketq.failure import error_text, trace_text
from bucketq.job import Claim, Job, JobStatus
from bucketq.operation import (
    Ack,
    AckMany,
    Bury,
    Dequeue,
    Heartbeat,
    HeartbeatMany,
    Nack,
    Operation,
    Release,
    RequeueSilent,
)
from bucketq.progress import check_progress
from bucketq.queue.channel import Channel
from bucketq.retry import Failure, Retry, RetryPolicy, decide
from bucketq.transaction import check_results, result_json
from bucketq.wanted import wanted_of

# More in one commit would make queue.json large, and a message to a broker too.
_RESULTS_BYTES_MAX = 8 * 1024 * 1024


class Consuming(Channel):
    """Working on jobs."""

    async def dequeue(
        self,
        entrypoint: str | Collection[str] | None = None,
        *,
        batch_size: int = 1,
        wait: float | None = None,
        worker: str | None = None,
        at_hand: bool = False,
    ) -> list[Job]:
        """Claim up to `batch_size` jobs, of one entrypoint, of up to 1,000 in a list, or of any.

        With `wait`, an empty queue is watched for up to that many seconds. Returns an
        empty list if there is nothing to do. `worker` is what the archive calls whoever
        claims them, if not the queue's own `worker`. `at_hand` leaves jobs in segments of the
        backlog where they are, for `dequeue_segment`, and does not wait.

            for job in await q.dequeue(["resize", "rotate"], batch_size=10, wait=20):
                ...
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        if at_hand and wait:
            raise ConfigurationError("at_hand takes what is there, and does not wait: leave one of them out")
        wanted = wanted_of(entrypoint)
        until_s = self._clock.monotonic_s() + wait if wait else None
        while True:
            token, now = self._mint.token(), self._clock.now()
            operation = Dequeue(wanted, batch_size, token, now, worker or self.worker, at_hand)
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

    async def ack_many(
        self, jobs: Iterable[Job | Claim | str], results: Iterable[Any] | None = None
    ) -> list[JobNotFoundError]:
        """Acknowledge many jobs in one write; return an error for each that was refused.

        `results`, if given, has one for each job, as `ack` takes it, or None. Those of more than
        8 MiB take more than one write.

            errors = await q.ack_many(jobs, results=[len(job.payload) for job in jobs])
        """
        claims, now = tuple(map(Claim.of, jobs)), self._clock.now()
        contents: tuple[bytes, ...] = ()
        if results is not None:
            contents = tuple(map(result_json, results))
            check_results(claims, contents)
        refused: list[JobNotFoundError] = []
        for part in _parts(contents) if claims else ():
            refused += await self._submit(AckMany(claims[part], now, contents[part]))
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
        policy says (see `bucketq.retry`). Returns the job as it stands now, or as it was
        given back if a broker's answer came too late to tell. Raises what `ack` raises.

            await q.nack(job, error, retry_in=30)
            await q.nack(job, error, retry=exponential(first_s=1, cap_s=600))
        """
        chance = 0.5 if retry is None else self._mint.jitter()
        operation = failed(job, error, self._clock.now(), retry_in, retry, chance, trace)
        given_back: Job | None = await self._submit(operation)
        if given_back is not None:
            return given_back
        # It was given back through a broker, and had left queue.json before the answer came.
        if not isinstance(job, Job):
            job = Job(id=operation.claim.job_id, entrypoint="", created_at=operation.now)
        left = {"token": None, "worker": None, "claimed_at": None, "heartbeat_at": None}
        status = JobStatus.DEAD if isinstance(operation, Bury) else JobStatus.QUEUED
        return replace(job, status=status, error=operation.error, **left)

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
        beat = self._new_beat(job, progress, note)
        if self._without_riders([beat]):
            await self._submit(beat)

    async def heartbeat_many(
        self,
        jobs: Iterable[Job | Claim | str],
        progress: Mapping[str, tuple[float | None, str | None]] | None = None,
    ) -> list[JobNotFoundError]:
        """A worker is alive and busy with all of these; return an error for each claim that is lost.

        A JobCancelledError among them tells of a job that somebody cancelled. `progress` may say,
        by the id of a job, how far it is, and more, as `heartbeat` does.

            errors = await q.heartbeat_many(jobs, {jobs[0].id: (0.4, "page 4 of 10")})
        """
        said, silence = progress or {}, (None, None)
        beats = [self._new_beat(job, *said.get(Claim.of(job).job_id, silence)) for job in jobs]
        beats = self._without_riders(beats)
        refused: list[JobNotFoundError] | None = (
            await self._submit(HeartbeatMany(tuple(beats))) if beats else None
        )
        # A broker that lets all of them ride along says nothing.
        return refused or []

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
            with suppress(BucketQError):
                await self.heartbeat_many(claimed)

    def _new_beat(self, job: Job | Claim | str, progress: float | None, note: str | None) -> Heartbeat:
        check_progress(progress, note)
        return Heartbeat(Claim.of(job), self._clock.now(), progress, note)

    def _without_riders(self, beats: list[Heartbeat]) -> list[Heartbeat]:
        """The heartbeats that have to be written at once; the others ride along with a later write."""
        return beats


def _parts(contents: Sequence[bytes]) -> Iterator[slice]:
    """Cut so that no part is too large for one commit."""
    start = size = 0
    for place, content in enumerate(contents):
        size += len(content)
        if size > _RESULTS_BYTES_MAX:
            yield slice(start, place)
            start, size = place, len(content)
    yield slice(start, None)


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
