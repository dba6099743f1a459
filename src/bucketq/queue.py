"""Queue: what a user does with a queue, wherever it is."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Unpack

from msgspec.structs import replace

from bucketq.archive_upkeep import tidy
from bucketq.bulk import BulkLoad, NewJobs
from bucketq.clock import Clock, SystemClock
from bucketq.codec import decode
from bucketq.collect import collect
from bucketq.commit import IfAbandoned
from bucketq.duration import Duration, seconds_of
from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    CorruptStateError,
    JobNotFoundError,
    ObjectNotFoundError,
    PayloadError,
    QueueClosedError,
)
from bucketq.failure import error_text, trace_text
from bucketq.job import Claim, Job
from bucketq.limit_operation import Pause, ReadLimits, Resume, SetLimit
from bucketq.limits import Limit, Limits, check_limit, check_name
from bucketq.mint import Mint
from bucketq.new_job import JobOptions, is_text, new_job
from bucketq.operation import (
    Ack,
    AckMany,
    Bury,
    Count,
    Dequeue,
    Enqueue,
    Find,
    Heartbeat,
    Nack,
    Operation,
    Release,
    RequeueSilent,
    Transact,
    enqueued_by,
)
from bucketq.payload import LargePayloads, payload_bytes
from bucketq.retry import Failure, Retry, RetryPolicy, decide
from bucketq.segment import Segment, SegmentLines, lost
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects, unreachable
from bucketq.state import QueueState, Stats
from bucketq.storage.port import Bucket, ObjectInfo, ObjectStoragePort, describe
from bucketq.transaction import Transaction, result_json


class Queue(ABC):
    """A durable job queue.

    Every method returns only after its change is safely stored; only the heartbeats of a
    BrokerQueue may return sooner and ride along with the next write. A job is given either
    as the `Job` that `dequeue` returned, which is refused if the claim on it was lost, or
    as its id, which stands for whoever holds the job.
    """

    def __init__(
        self,
        storage: ObjectStoragePort,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        self.storage = storage
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
        if not name or not is_text(name):
            raise ConfigurationError(f"a worker's name is a non-empty string, not {name!r}")
        self._worker = name

    async def enqueue(
        self, entrypoint: str, payload: Any = b"", priority: int = 0, **options: Unpack[JobOptions]
    ) -> Job:
        """Add a job and return it; `JobOptions` tells what may be asked of it.

        The payload is bytes, or anything that JSON can hold: a dict, a list, a
        dataclass, a msgspec Struct. Jobs of a lower priority number are served first.

            job = await q.enqueue("send_email", {"to": "alice@example.com"})

        Raises PayloadError if the payload is not JSON or too large, and QueueFullError if
        queue.json is at its limit.
        """
        job = self._new_job(entrypoint, payload, priority, options)
        added: list[Job]
        if self._payloads.is_large(job):
            stowed = (await self._payloads.stow(job),)
            added = await self._payloads.submit(Enqueue(stowed), stowed)
            return replace(added[0], payload=job.payload)
        added = await self._submit(Enqueue((job,)))
        return added[0]

    async def enqueue_many(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        **options: Unpack[JobOptions],
    ) -> Sequence[str]:
        """Add any number of jobs in one commit, all or none, in the order given; return their ids.

            ids = await q.enqueue_many("resize", ({"image": n} for n in range(1_000_000)))

        Of a long iterable only a part is in memory at a time: the jobs go straight to
        segments of the backlog.
        """
        if isinstance(payloads, str | bytes | Mapping):
            raise ConfigurationError("enqueue_many takes an iterable of payloads; for one there is enqueue")
        if not isinstance(payloads, Iterable):
            raise ConfigurationError(f"enqueue_many takes an iterable of payloads, not {payloads!r}")
        model = self._new_job(entrypoint, b"", priority, options)
        contents = (self._content(entrypoint, payload) for payload in payloads)
        jobs = NewJobs(model, contents, self._clock, self._mint)
        await BulkLoad(self._objects, self._payloads, self.settings, self._submit).enqueue(jobs)
        return list(jobs.ids) if len(jobs.ids) <= self.settings.hot_jobs_max else jobs.ids

    async def dequeue(
        self,
        entrypoint: str | None = None,
        *,
        batch_size: int = 1,
        wait: float | None = None,
        worker: str | None = None,
    ) -> list[Job]:
        """Claim up to `batch_size` jobs, of one entrypoint or of any.

        With `wait`, an empty queue is watched for up to that many seconds. Returns an
        empty list if there is nothing to do. `worker` is what the archive calls whoever
        claims them, if not the queue's own `worker`.

            for job in await q.dequeue("resize", batch_size=10, wait=20):
                ...
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        if entrypoint is not None and not isinstance(entrypoint, str):
            raise ConfigurationError(f"dequeue takes one entrypoint, or none for any, not {entrypoint!r}")
        until_s = self._clock.monotonic_s() + wait if wait else None
        while True:
            token, now = self._mint.token(), self._clock.now()
            operation = Dequeue(entrypoint, batch_size, token, now, worker or self.worker)
            claimed: list[Job] | None = await self._submit(operation, if_abandoned=_release)
            if claimed is None:
                continue  # it was claimed through a broker, and lost again before the answer came
            jobs = await self._with_payloads(claimed)
            if claimed and not jobs:
                continue  # their payloads were lost, and they are dead now
            if jobs or until_s is None or (remaining_s := until_s - self._clock.monotonic_s()) <= 0:
                return jobs
            await self._wait_ready(entrypoint, remaining_s)

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
    ) -> Job:
        """The job failed: it is tried again, or dead once its attempts are used up.

        `error` is kept with the job: a text, or the exception itself, with where it came
        from. It is tried again after `retry_in`, or as a policy says (see `bucketq.retry`).
        Returns the job as it stands now. Raises what `ack` raises.

            await q.nack(job, error, retry_in=30)
            await q.nack(job, error, retry=exponential(first_s=1, cap_s=600))
        """
        claim, text, trace = Claim.of(job), error_text(error), trace_text(error)
        operation: Nack | Bury = Nack(claim, text, self._clock.now(), seconds_of(retry_in, "retry_in"), trace)
        if retry is not None:
            if retry_in or not isinstance(job, Job):
                raise ConfigurationError(
                    "a retry policy decides on a Job that dequeue gave, without retry_in"
                )
            exception = error if isinstance(error, BaseException) else None
            failure = Failure(job, job.failures, text or "", exception, self._mint.jitter())
            decision = decide(retry, failure)
            if isinstance(decision, Retry):
                operation = replace(operation, retry_in_s=seconds_of(decision.after_s, "the policy's delay"))
            else:
                operation = Bury(claim, text or "given up", self._clock.now(), trace)
        given_back: Job | None = await self._submit(operation)
        if given_back is None:
            # It was given back through a broker, and had moved on before the answer came.
            raise JobNotFoundError(claim.job_id, f"job {claim.job_id} was given back, and has moved on since")
        return given_back

    async def release(self, *jobs: Job | Claim | str) -> None:
        """The worker leaves, and gives its jobs back: others take them, and it costs no attempt.

        What it does not hold any more is passed over.
        """
        await self._submit(Release(tuple(map(Claim.of, jobs)), self._clock.now()))

    async def heartbeat(self, job: Job | Claim | str) -> None:
        """The worker is alive and busy with the job. Raises what `ack` raises."""
        await self._submit(Heartbeat(Claim.of(job), self._clock.now()))

    async def requeue_stale(self, timeout: timedelta) -> int:
        """Take every job whose last heartbeat is older than `timeout`; return how many.

        For a process too short-lived to watch the heartbeats itself: it compares time
        stamps, so the clocks of the machines should agree to well within `timeout`.
        """
        requeued: int = await self._submit(RequeueSilent(self._clock.now() - timeout, self._clock.now()))
        return requeued

    def transaction(self) -> Transaction:
        """Collect enqueues, acks and nacks that land in one commit or not at all.

            async with q.transaction() as t:
                t.ack(job)
                t.enqueue("next_step", {"after": job.id})

        If one of them is refused, none takes effect and the block raises its error.
        """
        return Transaction(self._new_job, self._clock, self._transact)

    async def pause(self, entrypoint: str | None = None) -> None:
        """Let no more jobs of an entrypoint begin, or of the whole queue; those that run go on.

        Jobs are still enqueued. It stays so, whoever comes and goes, until `resume`.

            await q.pause("send_email")
        """
        if entrypoint is not None:
            check_name("an entrypoint", entrypoint)
        await self._submit(Pause(entrypoint))

    async def resume(self, entrypoint: str | None = None) -> None:
        """End the pause of an entrypoint, or that of the whole queue."""
        if entrypoint is not None:
            check_name("an entrypoint", entrypoint)
        await self._submit(Resume(entrypoint))

    async def limit(
        self,
        entrypoint: str | None = None,
        *,
        limit_key: str | None = None,
        max_running: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Limit the jobs of an entrypoint, or those that were enqueued with a `limit_key`.

        No more than `max_running` of them run at the same time, whoever runs them, and no
        more than `rate` a second begin, `burst` of them at once (by default as many as the
        rate, at least 1). A limit key that ends with `*` limits each key that begins so. It
        replaces the limit that was there; without numbers it removes it.

            await q.limit("resize", max_running=4)
            await q.limit(limit_key="api.example.com", rate=10, burst=20)
            await q.limit(limit_key="customer-*", max_running=1)
        """
        limit = Limit(max_running=max_running, rate=rate, burst=burst)
        check_limit(entrypoint, limit_key, limit)
        await self._submit(SetLimit(entrypoint, limit_key, limit))

    async def limits(self) -> Limits:
        """What is limited, and what is paused.

        (await q.limits()).entrypoints["resize"].max_running
        """
        limits: Limits = await self._submit(ReadLimits())
        return limits

    async def stats(self) -> Stats:
        """How many jobs there are, and were; costs at most one read of queue.json."""
        stats: Stats = await self._submit(Count())
        return stats

    async def find(self, job: Job | str) -> Job | None:
        """The job as it stands now, or None if it is not in the queue (any more).

        A large payload is left where it is; `fetch_payload` gets it.
        """
        job_id = Claim.of(job).job_id
        missing = None
        while True:
            found: Job | list[Segment] = await self._submit(Find(job_id))
            if isinstance(found, Job):
                return found
            try:
                return await self._find_in(found, job_id)
            except ObjectNotFoundError as error:
                # Used up meanwhile, unless the queue still names it.
                if missing == found:
                    raise CorruptStateError(f"a segment of the backlog is gone: {error}") from error
                missing = found

    async def fetch_payload(self, job: Job) -> bytes:
        """The payload of a job that was found or listed. Raises ObjectNotFoundError if it is gone."""
        if not isinstance(job, Job):
            raise ConfigurationError(f"fetch_payload takes the Job that find or read_state gave, not {job!r}")
        return (await self._payloads.read(job)).payload

    async def read_state(self) -> QueueState:
        """Read the whole queue as it is now, with every segment of its backlog.

        The snapshot is yours: nothing changes it. With a deep backlog it is large; for the
        numbers alone there is `stats`, for one job `find`.
        """
        seen = None
        while True:
            content, etag = await self.storage.read()
            if etag is None:
                return QueueState()
            state = decode(content, describe(self.storage))
            try:
                await self._read_backlog(state)
                return state
            except ObjectNotFoundError as error:
                # Used up since queue.json was read, unless that still says the same.
                if seen == etag:
                    raise lost(next(iter(state.backlog)), str(error)) from error
                seen = etag

    async def collect_garbage(self, *, dry_run: bool = False) -> list[ObjectInfo]:
        """Remove objects beside the queue that nothing has referred to for `collect_after_s`.

        Such are left by crashes. Also compacts the archive and removes what it does not keep.
        An open BrokerQueue does this by itself, once an hour. Returns the objects that nothing
        referred to and were removed, or with `dry_run` would be.
        """
        if self._objects is None:
            return []
        older_than = self._clock.now() - timedelta(seconds=self.settings.collect_after_s)
        removed = await collect(self._objects, self._submit, older_than=older_than, dry_run=dry_run)
        if not dry_run:
            await tidy(self._objects, self._submit, self.settings, self._clock.now())
        return removed

    async def _read_backlog(self, state: QueueState) -> None:
        for segment in tuple(state.backlog):
            if self._objects is None:
                raise unreachable("waiting jobs are")
            state.shelf.put(segment, await self._objects.read(segment.name))
            state.absorb(segment)

    async def _find_in(self, segments: list[Segment], job_id: str) -> Job | None:
        # One by one, and none is kept: there may be many.
        for segment in segments:
            if self._objects is None:
                raise unreachable("waiting jobs are")
            lines = SegmentLines(segment, await self._objects.read(segment.name))
            if job := lines.find(segment, job_id):
                return job
        return None

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

    async def _transact(self, operations: tuple[Operation, ...]) -> None:
        await self.apply(Transact(operations))

    async def apply(self, operation: Operation) -> Any:
        """Have an operation committed by itself; its large payloads go to objects first."""
        stowed = await self._stowed(operation)
        both = zip(enqueued_by(operation), enqueued_by(stowed), strict=True)
        # Those that were objects before are not ours to remove.
        return await self._payloads.submit(stowed, [new for old, new in both if old.payload_object is None])

    async def _stowed(self, operation: Operation) -> Operation:
        """The operation, with its large payloads in objects."""
        if not any(map(self._payloads.is_large, enqueued_by(operation))):
            return operation
        if isinstance(operation, Transact):
            return Transact(tuple([await self._stowed(part) for part in operation.operations]))
        return Enqueue(await self._payloads.stow_all(enqueued_by(operation)))

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        answer = self._send(operation, if_abandoned)
        try:
            return await answer
        except asyncio.CancelledError:
            # The answer may have come in the same instant in which its caller was cancelled.
            came = answer.done() and not answer.cancelled() and answer.exception() is None
            if came and if_abandoned:
                self._make_amends(if_abandoned(answer.result()))
            raise

    def _make_amends(self, amends: Operation | None) -> None:
        if amends is not None:
            with suppress(QueueClosedError):
                self._send(amends).add_done_callback(_ignore)

    @abstractmethod
    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        """Have the operation committed; the future brings its answer."""

    @abstractmethod
    async def _wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""

    def _new_job(self, entrypoint: str, payload: Any, priority: int, options: JobOptions) -> Job:
        now = self._clock.now()
        job = new_job(self._mint.job_id(now), entrypoint, b"", priority, now, options)
        return replace(job, payload=self._content(entrypoint, payload))

    def _content(self, entrypoint: str, payload: Any) -> bytes:
        content = payload_bytes(payload)
        limit, setting = self.settings.payload_bytes_max, "payload_bytes_max"
        if self._objects is None and limit > self.settings.queue_bytes_max // 2:
            limit, setting = self.settings.queue_bytes_max // 2, "half of queue_bytes_max"
        if len(content) > limit:
            raise PayloadError(
                f"the payload for {entrypoint!r} has {len(content)} bytes; the limit is {limit} ({setting})."
                " Store it elsewhere and enqueue a reference to it."
            )
        return content


def _ignore(answer: "asyncio.Future[Any]") -> None:
    _ = answer.cancelled() or answer.exception()


def _release(claimed: list[Job] | None) -> Operation | None:
    return Release(tuple(map(Claim.of, claimed))) if claimed else None
