"""Queue: what a user does with a queue. DirectQueue and BrokerQueue: the embedded two.

Both offer the same operations on any storage, and any number of them may share one
object, in one process or in many. A DirectQueue writes once for each call. A BrokerQueue
lets all its callers share the next write.
"""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import msgspec

from bucketq.clock import Clock, SystemClock
from bucketq.codec import decode
from bucketq.commit import Committer, IfAbandoned, Pending
from bucketq.errors import ConfigurationError, JobNotFoundError, PayloadError, QueueClosedError
from bucketq.group import GroupCommit
from bucketq.job import Claim, Job
from bucketq.mint import Mint
from bucketq.operation import (
    Ack,
    AckMany,
    Dequeue,
    Enqueue,
    Heartbeat,
    Nack,
    Operation,
    Release,
    RequeueSilent,
    Transact,
)
from bucketq.retry import EXPONENTIAL, LINEAR, Backoff
from bucketq.settings import Settings
from bucketq.state import QueueState
from bucketq.storage.port import ObjectStoragePort, describe
from bucketq.transaction import Transaction, error_text

# What every JSON reader can hold without rounding.
_INTEGER_MAX = 2**53 - 1


class Queue(ABC):
    """A durable job queue.

    Every method returns only after its change is safely stored; only the heartbeats of a
    BrokerQueue may return sooner and ride along with the next write. A job is given either
    as the `Job` that `dequeue` returned, which is refused if the claim on it was lost, or
    as its id, which stands for whoever holds the job.
    """

    _backoff: Backoff

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

    async def enqueue(
        self, entrypoint: str, payload: Any = b"", priority: int = 0, *, max_attempts: int = 3
    ) -> Job:
        """Add a job and return it.

        The payload is bytes, or anything that JSON can hold: a dict, a list, a
        dataclass, a msgspec Struct. Jobs of a lower priority number are served first.

            job = await q.enqueue("send_email", {"to": "alice@example.com"})

        Raises PayloadError if the payload is not JSON or too large.
        """
        job = self._new_job(entrypoint, payload, priority, max_attempts)
        added: list[Job] = await self._submit(Enqueue((job,)))
        return added[0]

    async def enqueue_many(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        *,
        max_attempts: int = 3,
    ) -> list[Job]:
        """Add many jobs in one write, all or none, in the order given.

        jobs = await q.enqueue_many("resize", [{"image": n} for n in range(100)])
        """
        if isinstance(payloads, str | bytes | Mapping):
            raise ConfigurationError("enqueue_many takes a list of payloads; for one there is enqueue")
        jobs = tuple(self._new_job(entrypoint, payload, priority, max_attempts) for payload in payloads)
        added: list[Job] = await self._submit(Enqueue(jobs)) if jobs else []
        return added

    async def dequeue(
        self, entrypoint: str | None = None, *, batch_size: int = 1, wait: float | None = None
    ) -> list[Job]:
        """Claim up to `batch_size` jobs, of one entrypoint or of any.

        With `wait`, an empty queue is watched for up to that many seconds. Returns an
        empty list if there is nothing to do.

            for job in await q.dequeue("resize", batch_size=10, wait=20):
                ...
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        until_s = self._clock.monotonic_s() + wait if wait else None
        while True:
            operation = Dequeue(entrypoint, batch_size, self._mint.token(), self._clock.now())
            jobs: list[Job] = await self._submit(operation, if_abandoned=_release)
            if jobs or until_s is None or (remaining_s := until_s - self._clock.monotonic_s()) <= 0:
                return jobs
            await self._wait_ready(entrypoint, remaining_s)

    async def ack(self, job: Job | str) -> None:
        """The job is done: it leaves the queue.

        Raises ClaimLostError if the job was given to another worker meanwhile, and
        JobNotFoundError if it is not in the queue any more.
        """
        await self._submit(Ack(Claim.of(job)))

    async def ack_many(self, jobs: Iterable[Job | str]) -> list[JobNotFoundError]:
        """Acknowledge many jobs in one write; return an error for each that was refused."""
        claims = tuple(map(Claim.of, jobs))
        refused: list[JobNotFoundError] = await self._submit(AckMany(claims)) if claims else []
        return refused

    async def nack(self, job: Job | str, error: str | BaseException | None = None) -> Job:
        """The job failed: it is tried again, or dead once its attempts are used up.

        `error` is kept with the job: a text, or the exception itself. Returns the job as
        it stands now. Raises what `ack` raises.
        """
        given_back: Job = await self._submit(Nack(Claim.of(job), error_text(error)))
        return given_back

    async def heartbeat(self, job: Job | str) -> None:
        """The worker is alive and busy with the job. Raises what `ack` raises."""
        await self._submit(Heartbeat(Claim.of(job), self._clock.now()))

    async def requeue_stale(self, timeout: timedelta) -> int:
        """Take every job whose last heartbeat is older than `timeout`; return how many.

        For a process too short-lived to watch the heartbeats itself: it compares time
        stamps, so the clocks of the machines should agree to well within `timeout`.
        """
        requeued: int = await self._submit(RequeueSilent(self._clock.now() - timeout))
        return requeued

    def transaction(self) -> Transaction:
        """Collect enqueues, acks and nacks that land in one commit or not at all.

            async with q.transaction() as t:
                t.ack(job)
                t.enqueue("next_step", {"after": job.id})

        If one of them is refused, none takes effect and the block raises its error.
        """
        return Transaction(self._new_job, lambda operations: self._submit(Transact(operations)))

    async def read_state(self) -> QueueState:
        """Read the whole queue as it is now. The snapshot is yours: nothing changes it."""
        content, etag = await self.storage.read()
        return QueueState() if etag is None else decode(content, describe(self.storage))

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        answer = self._send(operation, if_abandoned)
        try:
            return await answer
        except asyncio.CancelledError:
            # The answer may have come in the same instant in which its caller was cancelled.
            came = answer.done() and not answer.cancelled() and answer.exception() is None
            if came and if_abandoned and (left := if_abandoned(answer.result())):
                with suppress(QueueClosedError):
                    self._send(left).add_done_callback(_ignore)
            raise

    def _new_committer(self) -> Committer:
        return Committer(
            self.storage,
            settings=self.settings,
            backoff=self._backoff,
            clock=self._clock,
            mint=self._mint,
        )

    @abstractmethod
    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        """Have the operation committed; the future brings its answer."""

    @abstractmethod
    async def _wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""

    def _new_job(self, entrypoint: str, payload: Any, priority: int = 0, max_attempts: int = 3) -> Job:
        if not entrypoint or not _is_text(entrypoint):
            raise ConfigurationError(f"an entrypoint is a non-empty string, not {entrypoint!r}")
        if type(max_attempts) is not int or not 1 <= max_attempts <= _INTEGER_MAX:
            raise ConfigurationError(f"max_attempts is a whole number from 1, not {max_attempts!r}")
        if type(priority) is not int or not -_INTEGER_MAX <= priority <= _INTEGER_MAX:
            raise ConfigurationError(f"priority is a whole number within ±{_INTEGER_MAX}, not {priority!r}")
        content = _payload_bytes(payload)
        if len(content) > self.settings.payload_bytes_max:
            raise PayloadError(
                f"the payload for {entrypoint!r} has {len(content)} bytes; the limit is"
                f" {self.settings.payload_bytes_max} (payload_bytes_max). Store it elsewhere"
                " and enqueue a reference to it."
            )
        now = self._clock.now()
        return Job(
            id=self._mint.job_id(now),
            entrypoint=entrypoint,
            payload=content,
            priority=priority,
            max_attempts=max_attempts,
            created_at=now,
        )


class DirectQueue(Queue):
    """A queue that writes once for each call. Nothing to open, nothing to close.

        q = DirectQueue(LocalFileSystemStorage("queue.json"))
        job = await q.enqueue("task", b"data")

    It may be shared by threads and event loops: each thread is a writer of its own.
    """

    _backoff = LINEAR

    def __init__(
        self,
        storage: ObjectStoragePort,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        super().__init__(storage, settings, clock, mint)
        self._of_this_thread = threading.local()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        pending = Pending(operation, answer, if_abandoned)
        # In a task of its own: a caller that is cancelled must not tear a write apart.
        commit = loop.create_task(self._commit(pending, *self._writer(loop)), name="bucketq commit")
        _running.add(commit)
        commit.add_done_callback(_running.discard)
        return answer

    async def _commit(self, pending: Pending, committer: Committer, turn: asyncio.Lock) -> None:
        async with turn:
            for left in await committer.commit([pending]):
                await committer.commit([Pending(left, None)])

    def _writer(self, loop: asyncio.AbstractEventLoop) -> tuple[Committer, asyncio.Lock]:
        mine = self._of_this_thread
        place = loop, os.getpid()
        if getattr(mine, "place", None) != place:
            last = getattr(mine, "place", None)
            # Not the writer of before a fork, nor one that a stopped loop left in the middle.
            if last is None or last[1] != place[1] or mine.committer.is_busy:
                mine.committer = self._new_committer()
            mine.place, mine.turn = place, asyncio.Lock()
        return mine.committer, mine.turn

    async def _wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        await asyncio.sleep(min(timeout_s, self.settings.poll_interval_s))


class BrokerQueue(Queue):
    """A queue whose callers share writes: open it with `async with`.

        async with BrokerQueue(InMemoryStorage()) as q:
            await q.enqueue("task", b"data")

    `stale_timeout` is `settings.stale_after_s` as a timedelta.
    """

    _backoff = EXPONENTIAL
    _group: GroupCommit | None = None

    def __init__(
        self,
        storage: ObjectStoragePort,
        stale_timeout: timedelta | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        settings = settings or Settings()
        if stale_timeout is not None:
            settings = replace(settings, stale_after_s=stale_timeout.total_seconds())
        super().__init__(storage, settings, clock, mint)

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise QueueClosedError("this queue is open already")
        # A writer of its own each time: two that share a name take each other's commits for
        # their own, be it a fork or a queue that is opened again while it is still closing.
        self._group = GroupCommit(self._new_committer(), self.settings.poll_interval_s)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.close()

    async def heartbeat(self, job: Job | str) -> None:
        beat = Heartbeat(Claim.of(job), self._clock.now())
        if not self._opened().ride(beat):
            await self._submit(beat)

    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        return self._opened().submit(operation, if_abandoned)

    async def _wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        await self._opened().wait_ready(entrypoint, timeout_s)

    def _opened(self) -> GroupCommit:
        if self._group is None:
            raise QueueClosedError("the queue is not open: use it inside `async with`")
        return self._group


# The event loop keeps only weak references to its tasks.
_running: set["asyncio.Task[None]"] = set()


def _ignore(answer: "asyncio.Future[Any]") -> None:
    _ = answer.cancelled() or answer.exception()


def _release(claimed: list[Job]) -> Operation | None:
    return Release(tuple(map(Claim.of, claimed))) if claimed else None


def _payload_bytes(payload: Any) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    try:
        return msgspec.json.encode(payload)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"the payload is neither bytes nor JSON: {error}") from error


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
