"""The same queues for code without async.

    import bucketq.sync

    with bucketq.sync.connect("file:///var/lib/myapp/queue.json") as q:
        q.enqueue("send_email", {"to": "alice@example.com"})
        for job in q.dequeue("send_email", wait=20):
            ...
            q.ack(job)

One queue may be shared by any number of threads: their calls share writes as those of an async
program do. Behind it an event loop runs in a thread of its own.
"""

import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from bucketq.batches import BatchCounts
from bucketq.duration import Duration
from bucketq.embedded import BrokerQueue
from bucketq.errors import JobNotFoundError, QueueClosedError
from bucketq.heartbeat import HeartbeatManager
from bucketq.job import Claim, Job, JobStatus
from bucketq.limits import Limits
from bucketq.listing import PAGE_SIZE, Page
from bucketq.loop_thread import LoopThread
from bucketq.new_batch import NewBatch, Then
from bucketq.new_job import JobOptions
from bucketq.remote.queue import RemoteQueue
from bucketq.retry import RetryPolicy
from bucketq.schedule import Schedule
from bucketq.settings import Settings
from bucketq.state import QueueState, Stats
from bucketq.storage.port import ObjectInfo
from bucketq.tls import Tls
from bucketq.transaction import Transaction
from bucketq.url import connect as connect_async

T = TypeVar("T")


def connect(
    url: str,
    *,
    via: Literal["broker"] | None = None,
    token: str | None = None,
    tls: Tls | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> "Queue":
    """Open the queue at a URL, as `bucketq.connect` does; use the result with `with`."""
    return Queue(
        lambda: connect_async(
            url, via=via, token=token, tls=tls, storage_options=storage_options, settings=settings
        )
    )


class Queue:
    """A queue without async; `open_queue` gives the async one behind it, which says what each method does."""

    def __init__(self, open_queue: Callable[[], BrokerQueue | RemoteQueue]) -> None:
        self._open_queue = open_queue
        self._queue: BrokerQueue | RemoteQueue | None = None
        self._loop: LoopThread | None = None

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise QueueClosedError("this queue is open already")
        queue = self._open_queue()
        self._loop = LoopThread()
        try:
            self._run(queue.__aenter__())
        except BaseException:
            self._stop()
            raise
        self._queue = queue
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        queue, self._queue = self._queue, None
        try:
            if queue is not None:
                self._run(queue.__aexit__(None, None, None))
        finally:
            self._stop()

    def enqueue(
        self, entrypoint: str, payload: Any = b"", priority: int = 0, **options: Unpack[JobOptions]
    ) -> Job:
        """Add a job and return it."""
        return self._run(self._opened.enqueue(entrypoint, payload, priority, **options))

    def enqueue_many(
        self, entrypoint: str, payloads: Iterable[Any], priority: int = 0, **options: Unpack[JobOptions]
    ) -> Sequence[str]:
        """Add any number of jobs in one commit; return their ids. The iterable runs in the queue's thread."""
        return self._run(self._opened.enqueue_many(entrypoint, payloads, priority, **options))

    def enqueue_batch(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        *,
        then: Then | tuple[str, Any],
        **options: Unpack[JobOptions],
    ) -> NewBatch:
        """Add any number of jobs, and one more that runs when all of them are finished."""
        return self._run(self._opened.enqueue_batch(entrypoint, payloads, priority, then=then, **options))

    def batch(self, batch_id: str) -> BatchCounts | None:
        """How far a batch has got, or None when the job that followed it is finished too."""
        return self._run(self._opened.batch(batch_id))

    def result(self, job: Job | str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result."""
        return self._run(self._opened.result(job, timeout))

    def dequeue(
        self,
        entrypoint: str | Collection[str] | None = None,
        *,
        batch_size: int = 1,
        wait: float | None = None,
        worker: str | None = None,
    ) -> list[Job]:
        """Claim up to `batch_size` jobs; with `wait`, watch an empty queue for so many seconds."""
        return self._run(self._opened.dequeue(entrypoint, batch_size=batch_size, wait=wait, worker=worker))

    def ack(self, job: Job | Claim | str, result: Any = None) -> None:
        """The job is done."""
        self._run(self._opened.ack(job, result))

    def ack_many(
        self, jobs: Iterable[Job | Claim | str], results: Iterable[Any] | None = None
    ) -> list[JobNotFoundError]:
        """Acknowledge many jobs in one write; return an error for each that was refused."""
        return self._run(self._opened.ack_many(jobs, results))

    def nack(
        self,
        job: Job | Claim | str,
        error: str | BaseException | None = None,
        *,
        retry_in: Duration = 0.0,
        retry: RetryPolicy | None = None,
        trace: str | None = None,
    ) -> Job:
        """The job failed."""
        return self._run(self._opened.nack(job, error, retry_in=retry_in, retry=retry, trace=trace))

    def release(self, *jobs: Job | Claim | str) -> None:
        """The worker leaves, and gives its jobs back."""
        self._run(self._opened.release(*jobs))

    def heartbeat(
        self, job: Job | Claim | str, progress: float | None = None, note: str | None = None
    ) -> None:
        """The worker is alive and busy with the job, and so far with it."""
        self._run(self._opened.heartbeat(job, progress, note))

    def heartbeat_many(
        self,
        jobs: Iterable[Job | Claim | str],
        progress: Mapping[str, tuple[float | None, str | None]] | None = None,
    ) -> list[JobNotFoundError]:
        """A worker is alive and busy with all of these; return an error for each claim that is lost."""
        return self._run(self._opened.heartbeat_many(jobs, progress))

    def cancel(self, job: Job | Claim | str) -> Job:
        """The job is not wanted any more."""
        return self._run(self._opened.cancel(job))

    def dead(self, entrypoint: str | None = None) -> Iterator[Job]:
        """The dead jobs, of one entrypoint or of all."""
        jobs = self._opened.dead(entrypoint)
        while (job := self._run(_next(jobs))) is not None:
            yield job

    def redrive(self, job: Job | str) -> Job:
        """Do a dead job again, as a new one."""
        return self._run(self._opened.redrive(job))

    def redrive_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Redrive the dead jobs of an entrypoint, or of all; return how many."""
        return self._run(self._opened.redrive_many(entrypoint, error=error, limit=limit))

    def discard(self, job: Job | str) -> None:
        """Forget a dead job."""
        self._run(self._opened.discard(job))

    def discard_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Forget dead jobs; return how many."""
        return self._run(self._opened.discard_many(entrypoint, error=error, limit=limit))

    @contextmanager
    def kept_alive(
        self, job: Job | Claim | str, interval: timedelta | float = 60.0
    ) -> Iterator[threading.Event]:
        """Send heartbeats for a job while the block runs; raise at its end if the claim was lost.

            with q.kept_alive(job) as lost:
                for frame in frames(job.payload):
                    if lost.is_set():
                        break
                    transcode(frame)

        `lost` is set when the claim is: then the work is somebody else's.
        """
        is_lost, errors = threading.Event(), list[JobNotFoundError]()

        def note(error: JobNotFoundError) -> None:
            errors.append(error)
            is_lost.set()

        manager = HeartbeatManager(self._opened, job, interval, on_lost=note)
        self._run(manager.__aenter__())
        try:
            yield is_lost
        finally:
            self._run(manager.__aexit__(None, None, None))
        if errors:
            raise errors[0]

    def requeue_stale(self, timeout: timedelta) -> int:
        """Take every job whose last heartbeat is older than `timeout`; return how many."""
        return self._run(self._opened.requeue_stale(timeout))

    def schedule(
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
        """Enqueue a job again and again: at the times of `cron`, or `every` so many seconds."""
        times: dict[str, Any] = {"cron": cron, "tz": tz, "every": every, "missed": missed}
        return self._run(self._opened.schedule(name, entrypoint, payload, priority, **times, **options))

    def unschedule(self, name: str) -> None:
        """End a schedule."""
        self._run(self._opened.unschedule(name))

    def schedules(self) -> list[Schedule]:
        """The schedules, with their next and last ticks."""
        return self._run(self._opened.schedules())

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect enqueues, acks and nacks that land in one commit or not at all."""
        transaction = self._opened.transaction()
        self._run(transaction.__aenter__())
        try:
            yield transaction
        except BaseException as error:
            self._run(transaction.__aexit__(type(error), error, None))
            raise
        self._run(transaction.__aexit__(None, None, None))

    def pause(self, entrypoint: str | None = None) -> None:
        """Let no more jobs of an entrypoint begin, or of the whole queue."""
        self._run(self._opened.pause(entrypoint))

    def resume(self, entrypoint: str | None = None) -> None:
        """End the pause of an entrypoint, or that of the whole queue."""
        self._run(self._opened.resume(entrypoint))

    def limit(
        self,
        entrypoint: str | None = None,
        *,
        limit_key: str | None = None,
        max_running: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Limit the jobs of an entrypoint, or those with a limit key."""
        self._run(
            self._opened.limit(
                entrypoint, limit_key=limit_key, max_running=max_running, rate=rate, burst=burst
            )
        )

    def limits(self) -> Limits:
        """What is limited, and what is paused."""
        return self._run(self._opened.limits())

    def stats(self) -> Stats:
        """How many jobs there are, and were."""
        return self._run(self._opened.stats())

    def find(self, job: Job | str) -> Job | None:
        """The job as it stands now, or None if it is not in the queue."""
        return self._run(self._opened.find(job))

    def read_job(self, job: Job | str) -> Job | None:
        """The same for those who may only read."""
        return self._run(self._opened.read_job(job))

    def jobs(
        self,
        *,
        status: JobStatus | str | None = None,
        entrypoint: str | None = None,
        older_than: Duration | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Job]:
        """The jobs that wait, run or are dead."""
        jobs = self._opened.jobs(
            status=status, entrypoint=entrypoint, older_than=older_than, text=text, limit=limit
        )
        while (job := self._run(_next(jobs))) is not None:
            yield job

    def page(
        self,
        token: str = "",
        *,
        size: int = PAGE_SIZE,
        status: JobStatus | str | None = None,
        entrypoint: str | None = None,
        text: str | None = None,
    ) -> Page:
        """One page of what `jobs` lists, and the token that asks for the next one."""
        return self._run(self._opened.page(token, size=size, status=status, entrypoint=entrypoint, text=text))

    def read_file(self) -> QueueState:
        """Read queue.json as it is now, without the segments of its backlog."""
        return self._run(self._opened.read_file())

    def fetch_payload(self, job: Job) -> bytes:
        """The payload of a job that was found or listed."""
        return self._run(self._opened.fetch_payload(job))

    def read_state(self) -> QueueState:
        """Read the whole queue as it is now."""
        return self._run(self._opened.read_state())

    def collect_garbage(self, *, dry_run: bool = False) -> list[ObjectInfo]:
        """Remove objects beside the queue that nothing refers to."""
        return self._run(self._opened.collect_garbage(dry_run=dry_run))

    @property
    def worker(self) -> str:
        """What the archive calls whoever claims jobs through this queue."""
        return self._opened.worker

    @worker.setter
    def worker(self, name: str) -> None:
        self._opened.worker = name

    @property
    def settings(self) -> Settings:
        """How the queue behaves."""
        return self._opened.settings

    @property
    def _opened(self) -> BrokerQueue | RemoteQueue:
        if self._queue is None:
            raise QueueClosedError("the queue is not open: use it inside `with`")
        return self._queue

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise QueueClosedError("the queue is not open: use it inside `with`")
        return self._loop.run(work)

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()


async def _next(jobs: AsyncIterator[Job]) -> Job | None:
    return await anext(jobs, None)
