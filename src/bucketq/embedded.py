"""DirectQueue and BrokerQueue: a queue in this process, on any storage.

Both offer the same operations, and any number of them may share one object, in one process
or in many. A DirectQueue writes once for each call. A BrokerQueue lets all its callers share
the next write.
"""

import asyncio
import os
import threading
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from bucketq.account import Account, Spending
from bucketq.clock import Clock, SystemClock
from bucketq.commit import Committer
from bucketq.errors import ConfigurationError, QueueClosedError
from bucketq.figures import Figures
from bucketq.group import GroupCommit
from bucketq.job import Job
from bucketq.mint import Mint
from bucketq.operation import Heartbeat, Operation
from bucketq.pending import IfAbandoned, Pending, refuse
from bucketq.queue import Queue
from bucketq.retry import EXPONENTIAL, LINEAR, Backoff
from bucketq.segment import Needed
from bucketq.settings import Settings
from bucketq.storage.counted import counted, open_account
from bucketq.storage.port import ObjectStoragePort
from bucketq.upkeep import Upkeep
from bucketq.wanted import Wanted

# A budget holds commits no further apart: callers wait for them, and the heartbeats of workers, of which
# three at least have to land before one counts as gone.
WIDEST_S = 10.0


class EmbeddedQueue(Queue):
    """A queue whose operations are committed by this process."""

    _backoff: Backoff
    # Where its commits are counted, if it is not for each committer by itself.
    _figures: Figures | None = None
    # For how long it waits for the storage's first answer, if not by the stale timeout.
    answer_within_s: float | None = None

    def __init__(
        self,
        storage: ObjectStoragePort,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
        account: Account | None = None,
    ) -> None:
        settings, clock = settings or Settings(), clock or SystemClock()
        if not isinstance(settings, Settings):
            raise ConfigurationError(
                f"settings must be a bucketq.Settings, got {settings!r}. To retry for longer, pass"
                " Settings(retry_for_s=60)"
            )
        widest_s = min(WIDEST_S, settings.stale_after_s / 6)
        self._account = account or open_account(storage, settings, clock, widest_s)
        super().__init__(counted(storage, self._account), settings, clock, mint)
        self.storage = storage

    @property
    def spending(self) -> Spending:
        """The requests to the storage so far, what they cost, and whether a budget holds commits back.

        print(f"${queue.spending.dollars_per_month:.2f} a month")
        """
        return self._account.spending()

    def _new_committer(self) -> Committer:
        return Committer(
            self._storage,
            settings=self.settings,
            backoff=self._backoff,
            clock=self._clock,
            mint=self._mint,
            figures=self._figures,
            answer_within_s=self.answer_within_s,
            account=self._account,
        )


class DirectQueue(EmbeddedQueue):
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
        account: Account | None = None,
    ) -> None:
        super().__init__(storage, settings, clock, mint, account)
        self._of_this_thread = threading.local()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        answer = await super()._submit(operation, if_abandoned)
        try:
            # The process may end with this call, and then would leave objects behind.
            await self._writer().upkeep.finish()
        except asyncio.CancelledError:
            if if_abandoned:
                self._make_amends(if_abandoned(answer))
            raise
        return answer

    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        writer = self._writer()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pending = Pending(operation, answer, if_abandoned, since_s=self._clock.monotonic_s())
        # In a task of its own: a caller that is cancelled must not tear a write apart.
        commit = asyncio.create_task(writer.commit(pending), name="bucketq commit")
        _running.add(commit)
        commit.add_done_callback(_running.discard)
        return answer

    def _writer(self) -> "_Writer":
        mine = self._of_this_thread
        place = asyncio.get_running_loop(), os.getpid()
        if getattr(mine, "place", None) != place:
            last = getattr(mine, "place", None)
            # Not the writer of before a fork, nor one that a stopped loop left in the middle.
            if last is None or last[1] != place[1] or mine.writer.committer.is_busy:
                committer = self._new_committer()
            else:
                committer = mine.writer.committer
            mine.place = place
            upkeep = Upkeep(
                committer, self._objects, self.settings, self._clock, self._send, stays_open=False
            )
            mine.writer = _Writer(committer, upkeep, self._clock)
        writer: _Writer = mine.writer
        return writer

    async def _wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        committer = self._writer().committer
        look_s = committer.lookout.within_s(self.settings.poll_interval_s)
        await committer.lookout.wait(committer.etag, min(timeout_s, look_s))


class _Writer:
    """What one thread of a DirectQueue commits with, one operation after the other."""

    def __init__(self, committer: Committer, upkeep: Upkeep, clock: Clock) -> None:
        self.committer = committer
        self.upkeep = upkeep
        self._clock = clock
        self._turn = asyncio.Lock()

    async def commit(self, pending: Pending) -> None:
        deferred, asked_s = [pending], self._clock.monotonic_s()
        fetched: list[Needed] = []
        while deferred:
            try:
                async with self._turn:
                    # Those ahead in the line were held, too. Heartbeats bear one interval, not that of each.
                    if held_s := self.committer.held_for_s(self._clock.monotonic_s() - asked_s):
                        await asyncio.sleep(held_s)
                    rest = await self.committer.commit(deferred)
                    for amends in rest.amends:
                        await self.committer.commit([Pending(amends, None)])
            finally:
                # Also when the event loop ends: the next one may go on with this committer.
                self.upkeep.release(fetched)
            deferred, fetched = [], []
            for segments, needing in rest.deferred.items():
                try:
                    await self.upkeep.fetch(segments)
                    fetched.append(segments[0])
                    now_s = self._clock.monotonic_s()
                    deferred += [one._replace(since_s=now_s) for one in needing]
                except Exception as error:
                    refuse(needing, error)
        self.upkeep.after_commit()


class BrokerQueue(EmbeddedQueue):
    """A queue whose callers share writes: open it with `async with`.

        async with BrokerQueue(InMemoryStorage()) as q:
            await q.enqueue("task", b"data")

    `stale_timeout` is `settings.stale_after_s` as a timedelta.
    """

    _backoff = EXPONENTIAL
    _group: GroupCommit | None = None
    # Whether it is the queue that a leading broker serves.
    _leads = False

    def __init__(
        self,
        storage: ObjectStoragePort,
        stale_timeout: timedelta | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
        account: Account | None = None,
    ) -> None:
        settings = settings or Settings()
        if stale_timeout is not None:
            if not isinstance(stale_timeout, timedelta):
                raise ConfigurationError(f"stale_timeout must be a timedelta, got {stale_timeout!r}")
            settings = replace(settings, stale_after_s=stale_timeout.total_seconds())
        super().__init__(storage, settings, clock, mint, account)

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise QueueClosedError("this queue is open already")
        # A writer of its own each time: two that share a name take each other's commits for
        # their own, be it a fork or a queue that is opened again while it is still closing.
        committer = self._new_committer()
        self._group = GroupCommit(committer, self._objects, self.settings, self._clock, leads=self._leads)
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

    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        return self._opened().submit(operation, if_abandoned)

    async def _wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        await self._opened().wait_ready(wanted, timeout_s)

    def _without_riders(self, beats: list[Heartbeat]) -> list[Heartbeat]:
        group = self._opened()
        return [beat for beat in beats if not group.ride(beat)]

    async def _wait_finished(self, job: Job, timeout_s: float) -> None:
        await self._opened().wait_finished(job, timeout_s)

    def _opened(self) -> GroupCommit:
        if self._group is None:
            raise QueueClosedError("the queue is not open: use it inside `async with`")
        return self._group


# The event loop keeps only weak references to its tasks.
_running: set["asyncio.Task[None]"] = set()
