"""Queue: what a user does with a queue, wherever it is."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, Unpack

from msgspec.structs import replace

from bucketq.archive import Archive
from bucketq.archive_upkeep import tidy
from bucketq.batches import BatchCounts
from bucketq.bulk import BulkLoad, NewJobs
from bucketq.clock import Clock, SystemClock
from bucketq.codec import decode
from bucketq.collect import collect
from bucketq.commit import IfAbandoned
from bucketq.dead_letters import DeadLetter, dead_letters
from bucketq.duration import Duration, seconds_of
from bucketq.ending import Ending
from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    CorruptStateError,
    JobNotFoundError,
    ObjectNotFoundError,
    ParentsUnknownError,
    PayloadError,
    QueueClosedError,
)
from bucketq.failure import error_text, trace_text
from bucketq.job import Claim, Job
from bucketq.limit_operation import Pause, ReadLimits, Resume, SetLimit
from bucketq.limits import Limit, Limits, check_limit, check_name
from bucketq.mint import Mint
from bucketq.new_batch import NewBatch, Then
from bucketq.new_job import JobOptions, is_text, new_job
from bucketq.operation import (
    Ack,
    AckMany,
    Bury,
    Count,
    Dequeue,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    LookUp,
    Nack,
    Operation,
    Release,
    RequeueSilent,
    Transact,
    enqueued_by,
    knowing,
)
from bucketq.payload import LargePayloads, payload_bytes
from bucketq.progress import check_progress
from bucketq.results import result_of
from bucketq.retry import Failure, Retry, RetryPolicy, decide
from bucketq.schedule import Schedule, new_schedule
from bucketq.scheduling import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.segment import Segment, SegmentLines, lost
from bucketq.settings import Settings
from bucketq.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.side_objects import SideObjects, unreachable
from bucketq.state import QueueState, Stats
from bucketq.storage.port import Bucket, ObjectInfo, ObjectStoragePort, describe
from bucketq.transaction import Transaction, result_json

# Dead jobs in one commit.
_SETTLED_AT_ONCE = 100


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

        With a unique `key` it may be another job that is returned: the one that has the key.

            job = await q.enqueue("invoice", {"order": 17}, key="invoice-17")

        Raises PayloadError if the payload is not JSON or too large, QueueFullError if
        queue.json is at its limit, and KeyTakenError as `if_exists` says.
        """
        job = self._new_job(entrypoint, payload, priority, options)
        if_exists = options.get("if_exists", "return")
        added: list[Job]
        if self._payloads.is_large(job):
            stowed = (await self._payloads.stow(job),)
            added = await self._payloads.submit(Enqueue(stowed, if_exists), stowed)
            if added[0].id != job.id:
                await self._payloads.drop(stowed)
                return added[0]
            return replace(added[0], payload=job.payload)
        added = await self._submit(Enqueue((job,), if_exists))
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
        return await self._enqueue_all(self._new_job(entrypoint, b"", priority, options), payloads)

    async def _enqueue_all(
        self, model: Job, payloads: Iterable[Any], then: Job | None = None
    ) -> Sequence[str]:
        def of_batch(part: Enqueue | EnqueueSegments) -> Operation:
            return part if then is None else EnqueueBatch(then, part, self._clock.now())

        if model.key is not None:
            raise ConfigurationError("a key is that of one job: enqueue jobs with keys one by one")
        contents = (self._content(model.entrypoint, payload) for payload in payloads)
        jobs = NewJobs(model, contents, self._clock, self._mint)
        load = BulkLoad(self._objects, self._payloads, self.settings, self._submit, of_batch)
        await load.enqueue(jobs, are_blocked=bool(model.after))
        if then is not None and not jobs.ids and self._objects is not None:
            await self._submit(of_batch(Enqueue(())))
        return list(jobs.ids) if len(jobs.ids) <= self.settings.hot_jobs_max else jobs.ids

    async def enqueue_batch(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        *,
        then: Then | tuple[str, Any],
        **options: Unpack[JobOptions],
    ) -> NewBatch:
        """Add any number of jobs, and one more that runs when all of them are finished.

            batch = await q.enqueue_batch("resize", images, then=("publish", {"album": 7}))

        All of it is one commit. The job that follows is enqueued by the commit in which the last
        one is finished, be it done, dead or cancelled; its `batch` is the batch's id, and `batch`
        tells it how many have failed. `result(batch.id)` waits for it.
        """
        if isinstance(payloads, str | bytes | Mapping) or not isinstance(payloads, Iterable):
            raise ConfigurationError(f"enqueue_batch takes an iterable of payloads, not {payloads!r}")
        following = Then.of(then)
        model = self._new_job(entrypoint, b"", priority, options)
        job = self._new_job(following.entrypoint, following.payload, following.priority, following.options)
        if job.key is not None or job.after:
            raise ConfigurationError("the job that follows a batch has no key, and waits for the batch alone")
        job = await self._payloads.stow(replace(job, batch=job.id))
        ids = await self._enqueue_all(replace(model, batch=job.id), payloads, job)
        return NewBatch(job.id, ids)

    async def batch(self, batch_id: str) -> BatchCounts | None:
        """How far a batch has got, or None when the job that followed it is finished too.

        total, left, failed = await q.batch(job.batch)
        """
        counts: BatchCounts | None = await self._submit(FindBatch(batch_id))
        return counts

    async def result(self, job: Job | str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result: what `ack` was given, as JSON has it.

            print(await q.result(job, timeout=60))

        Raises JobFailedError if it is dead, JobNotDoneError (a kind of it) if it was cancelled or
        has expired, TimeoutError when the time is up, and JobNotFoundError if there never was such
        a job. Results are kept with the archived job; without an archive there are none.
        """
        job_id = Claim.of(job).job_id
        timeout_s = None if timeout is None else seconds_of(timeout, "timeout")
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await result_of(job_id, self._look_up, self._find_archived, self._wait_finished)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {job_id} is not finished after {timeout_s:g} s") from error

    async def _look_up(self, job_id: str) -> Job | Ending | None:
        found: Job | Ending | None = await self._submit(LookUp(job_id))
        return found

    async def _find_archived(self, job_id: str) -> Ending | None:
        if not isinstance(self.storage, Bucket):
            return None
        found = await Archive(self.storage, clock=self._clock).find(job_id)
        return None if found is None else Ending.of(found)

    async def _wait_finished(self, job_id: str, timeout_s: float) -> None:
        """Return once the job may be finished, or when the time is up."""
        await asyncio.sleep(timeout_s)

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

    async def cancel(self, job: Job | Claim | str) -> Job:
        """The job is not wanted any more. One that waits is gone at once, and archived as cancelled.

        Of one that runs the worker is told by its next heartbeat, which raises
        JobCancelledError. If it acknowledges the job all the same, that is completed; however
        else the attempt ends, there is no other one. Returns the job as it stands, or stood.
        Raises JobNotFoundError if it is finished already, or dead.

            await q.cancel(job)
        """
        job_id = Claim.of(job).job_id
        now = self._clock.now()
        cancelled: Job = await self._settle(job_id, lambda where: Cancel(job_id, now, where))
        return cancelled

    async def dead(self, entrypoint: str | None = None) -> AsyncIterator[Job]:
        """The dead jobs, of one entrypoint or of all: those that will not be tried again.

            async for job in q.dead("send_email"):
                print(job.id, job.error)

        They stay until they are redriven or discarded. A large payload is left where it is;
        `fetch_payload` gets it.
        """
        async for letter in self._dead_letters(entrypoint):
            yield letter.job

    async def redrive(self, job: Job | str) -> Job:
        """Do a dead job again: a new job, which names it in `redrive_of`, takes its place.

            again = await q.redrive(job)

        Raises JobNotFoundError if it is not dead, or not there, and KeyTakenError if another job
        has its unique key now.
        """
        job_id, now = Claim.of(job).job_id, self._clock.now()
        new_id = self._mint.job_id(now)
        new: Job = await self._settle(job_id, lambda where: Redrive(job_id, new_id, now, where))
        return new

    async def redrive_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Redrive the dead jobs of an entrypoint, or of all; return how many.

        `error` takes only those whose last error has this text in it, `limit` no more than so
        many. They are redriven a hundred in a commit. One whose unique key another job has now
        stays dead.

            await q.redrive_many("send_email", error="Connection refused")
        """
        now = self._clock.now()

        def redrive(letter: DeadLetter) -> Redrive:
            return Redrive(letter.job.id, self._mint.job_id(now), now, letter.where)

        return await self._settle_many(redrive, entrypoint, error, limit)

    async def discard(self, job: Job | str) -> None:
        """Forget a dead job; the archive keeps what it was. Raises JobNotFoundError."""
        job_id = Claim.of(job).job_id
        await self._settle(job_id, lambda where: Discard(job_id, where))

    async def discard_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Forget dead jobs, chosen as `redrive_many` does; return how many."""

        def discard(letter: DeadLetter) -> Discard:
            return Discard(letter.job.id, letter.where)

        return await self._settle_many(discard, entrypoint, error, limit)

    async def requeue_stale(self, timeout: timedelta) -> int:
        """Take every job whose last heartbeat is older than `timeout`; return how many.

        For a process too short-lived to watch the heartbeats itself: it compares time
        stamps, so the clocks of the machines should agree to well within `timeout`.
        """
        requeued: int = await self._submit(RequeueSilent(self._clock.now() - timeout, self._clock.now()))
        return requeued

    async def schedule(
        self,
        name: str,
        entrypoint: str,
        payload: Any = b"",
        priority: int = 0,
        *,
        cron: str | None = None,
        tz: str = "UTC",
        every: Duration | None = None,
        missed: Literal["skip", "last", "all"] = "last",
        **options: Unpack[JobOptions],
    ) -> Schedule:
        """Enqueue a job again and again: at the times of `cron`, or `every` so many seconds.

            await q.schedule("report", "send_report", cron="30 9 * * MON-FRI", tz="Europe/Vienna")
            await q.schedule("poll", "fetch_feed", {"feed": 7}, every=60, key="poll", expires_in=50)

        Each tick is fired once, whoever does it; `job.run_at` tells which it was. Of ticks that were
        missed, because nobody was there, none is made up for ("skip"), the newest ("last"), or "all".
        The options are those of `enqueue`; with a `key`, a tick that comes while the last job still
        waits or runs is passed over. A schedule of the same name is replaced; if its times stay what
        they were, so does its next tick.
        """
        model = self._new_job(entrypoint, payload, priority, options)
        schedule = new_schedule(name, model, options, cron=cron, tz=tz, every=every, missed=missed)
        stored: Schedule | None = await self._submit(PutSchedule(schedule, self._clock.now()))
        return stored or schedule

    async def unschedule(self, name: str) -> None:
        """End a schedule; what it has enqueued stays. Raises ScheduleNotFoundError."""
        await self._submit(RemoveSchedule(name))

    async def schedules(self) -> list[Schedule]:
        """The schedules, with their next tick (`next_at`) and the last one that was fired (`last_at`)."""
        schedules: list[Schedule] = await self._submit(ListSchedules())
        return schedules

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

    def _dead_letters(self, entrypoint: str | None) -> AsyncIterator[DeadLetter]:
        return dead_letters(self._read_file, self._objects, entrypoint)

    async def _read_file(self) -> QueueState:
        content, etag = await self.storage.read()
        return QueueState() if etag is None else decode(content, describe(self.storage))

    async def _settle(self, job_id: str, operation: Callable[[str], Operation]) -> Any:
        """Have something done to a job; `operation` makes it of the segment in which the job is."""
        where, missing = "", None
        while True:
            answer = await self._submit(operation(where))
            if answer is None:
                continue  # it went through a broker twice, and nobody knows where the job was
            if not isinstance(answer, list):
                return answer
            try:
                found = await self._segment_of(answer, job_id)
            except ObjectNotFoundError as error:
                # Used up meanwhile, unless the queue still names it.
                if missing == answer:
                    raise CorruptStateError(f"a segment of the backlog is gone: {error}") from error
                missing = answer
                continue
            if found is None:
                raise JobNotFoundError(job_id)
            where = found.name

    async def _settle_many(
        self,
        operation: Callable[[DeadLetter], Redrive | Discard],
        entrypoint: str | None,
        error: str | None,
        limit: int | None,
    ) -> int:
        done = 0
        while True:
            before, parts = done, list[Redrive | Discard]()
            missed = 0
            async for letter in self._dead_letters(entrypoint):
                if not letter.matches(error):
                    continue
                if limit is not None and done + len(parts) >= limit:
                    break
                parts.append(operation(letter))
                if len(parts) == _SETTLED_AT_ONCE:
                    count = await self._submit(SettleMany(tuple(parts)))
                    done, missed, parts = done + count, missed + len(parts) - count, []
            if parts:
                count = await self._submit(SettleMany(tuple(parts)))
                done, missed = done + count, missed + len(parts) - count
            # Some may have moved to another segment before their turn came.
            if not missed or done == before:
                return done

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

    async def _segment_of(self, segments: list[Segment], job_id: str) -> Segment | None:
        for segment in segments:
            if await self._find_in([segment], job_id):
                return segment
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
        if isinstance(operation, EnqueueBatch):
            return replace(operation, part=await self._stowed(operation.part))
        if isinstance(operation, Enqueue):
            return replace(operation, jobs=await self._payloads.stow_all(operation.jobs))
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
