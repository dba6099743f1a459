"""GroupCommit: many callers, one write.

    caller ──submit──▶ ┐                                ┌──▶ answer
    caller ──submit──▶ ├─ gather ─▶ Committer.commit ───┼──▶ answer
    caller ──submit──▶ ┘      ▲          one write      └──▶ answer
                              └── meanwhile the next batch gathers

One task owns the queue's state. It parks while there is nothing to do. An operation that
needs a segment of the backlog waits aside until that has been read, and joins a later batch.
"""

import asyncio
from contextlib import suppress
from itertools import chain
from typing import Any

from bucketq.clock import Clock
from bucketq.commit import Committer, Rest
from bucketq.errors import QueueClosedError
from bucketq.glance import Glance
from bucketq.job import Claim, Job
from bucketq.operation import Heartbeat, Operation, Refresh
from bucketq.operation.chores import DropArchived
from bucketq.pending import IfAbandoned, Pending, outlast, refuse
from bucketq.segment import Needed, Segment
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.state import QueueState, Stats
from bucketq.ticker import Ticker
from bucketq.upkeep import Upkeep
from bucketq.wanted import Wanted, names_of
from bucketq.watch import Watch

_BESIDE_S = 0.05
# At the end, for what nobody waits for.
_LAST_TRY_S = 5.0
_OWN_WRITE_S = 0.01
# The filters of those who wait are looked at after every commit, of so many names together.
_NAMES_MAX = 50_000


class GroupCommit:
    """Gathers operations while a commit is under way and commits them together."""

    def __init__(
        self,
        committer: Committer,
        objects: SideObjects | None,
        settings: Settings,
        clock: Clock,
        *,
        leads: bool = False,
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._poll_interval_s = settings.poll_interval_s
        self._upkeep = Upkeep(
            committer,
            objects,
            settings,
            clock,
            self.submit_beside,
            stays_open=True,
            submit_at_once=self.submit,
        )
        self._fetches: dict[asyncio.Task[None], list[Pending]] = {}
        # What was read for operations that are gathered now.
        self._fetched_for: list[Needed] = []
        self._gathered: list[Pending] = []
        self._beside: list[Pending] = []
        self._under_way: list[Pending] = []
        self._parked: asyncio.Future[None] | None = None
        self._closing = False
        self._in_haste = asyncio.Event()
        self._last_commit_s = float("-inf")
        self._waiters: dict[asyncio.Future[None], Wanted] = {}
        self._poller: asyncio.Task[None] | None = None
        # Those who wait for a job's end, and the version at which they were told last.
        self._watchers: dict[asyncio.Future[None], Watch] = {}
        self._watched_version = 0
        self._departure: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ticker = Ticker(committer, clock, self.submit, leads=leads)
        self._task = self._loop.create_task(self._run(), name="bucketq group commit")

    def submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        """Add an operation to the next batch; the future brings its answer."""
        answer = self._new_answer()
        self._gathered.append(Pending(operation, answer, if_abandoned, since_s=self._clock.monotonic_s()))
        self._unpark()
        return answer

    def submit_beside(self, operation: Operation) -> "asyncio.Future[Any]":
        """Let an operation that nobody waits for go along with the next batch, or go alone a little later.

        Sent at once it would often go just before the callers that the last commit has
        answered, and they would have to wait for it.
        """
        answer = self._new_answer()
        self._beside.append(Pending(operation, answer))
        if self._parked is not None:
            self._loop.call_later(_BESIDE_S, self._send_beside)
        return answer

    @property
    def stats(self) -> Stats | None:
        """The numbers as they were in the storage with the last commit, or look."""
        return self._committer.stats

    @property
    def landed_sent_s(self) -> float:
        """When the write that landed last was sent for the first time, by the monotonic clock."""
        return self._committer.landed_sent_s

    def ride(self, beat: Heartbeat) -> bool:
        """Let a heartbeat ride along with a later write, if it may wait; one comes in time."""
        state = self._committer.state
        may_wait_s = self._committer.riders.add(beat, state) if state is not None else 0.0
        if may_wait_s and (
            self._departure is None or self._departure.when() > self._loop.time() + may_wait_s
        ):
            if self._departure is not None:
                self._departure.cancel()
            self._departure = self._loop.call_later(may_wait_s, self._write_riders)
        return may_wait_s > 0

    async def wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""
        state = self._committer.state
        if state is not None and state.claimable(wanted, self._clock.now()):
            return  # it came between the empty answer and this question
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = wanted
        if self._poller is None:
            self._poller = self._loop.create_task(self._poll(), name="bucketq poll")
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiters.pop(waiter, None)
            if not self._waiters and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    async def wait_finished(self, job: Job, timeout_s: float) -> None:
        """Return once a job that was seen like this may be finished, or when the time is up."""
        watcher: asyncio.Future[None] = self._loop.create_future()
        self._watchers[watcher] = Watch(job)
        try:
            async with asyncio.timeout(timeout_s):
                await watcher
        except TimeoutError:
            pass
        finally:
            self._watchers.pop(watcher, None)

    def held_segment(self, claim: Claim) -> Segment | None:
        """The segment that this claim holds, as this process knows the queue; None if it holds none."""
        state = self._committer.state
        held = state.backlog.held().get(claim) if state is not None else None
        return held[0] if held is not None else None

    def glance(self) -> Glance | None:
        """How things stand; None while that has to be read first."""
        committer, state = self._committer, self._committer.state
        if state is None or self.stats is None:
            return None
        interval_s, wanted_s = committer.interval_s, committer.pace.wanted_s
        return Glance.at(state, self.stats, self._clock.now(), interval_s, wanted_s)

    def make_haste(self) -> None:
        """Leave no more time between commits: this is about to end, and somebody waits for that."""
        self._in_haste.set()

    async def close(self) -> None:
        """Take no more operations, commit those already gathered, and stop."""
        self.make_haste()
        self._ticker.close()
        try:
            await self._upkeep.close()
        finally:
            self._closing = True
            for waiter in (*self._waiters, *self._watchers):
                _wake(waiter)
            if self._committer.archived:
                self._gathered.append(Pending(DropArchived(tuple(self._committer.archived)), None))
            self._write_riders()
            self._unpark()
        await outlast(self._task, _LAST_TRY_S, self._unanswered)

    def _unanswered(self) -> list[Pending]:
        return [*self._under_way, *self._gathered, *self._beside, *chain(*self._fetches.values())]

    def abandon(self) -> None:
        """Stop at once; whoever waits is cancelled."""
        self._task.cancel()

    def _write_riders(self) -> None:
        if self._departure is not None:
            self._departure.cancel()
            self._departure = None
        self._gathered += [Pending(beat, None) for beat in self._committer.riders.take().values()]
        self._unpark()

    def _new_answer(self) -> "asyncio.Future[Any]":
        if self._task.done():
            raise QueueClosedError("the queue is closed; open a new one with `async with`")
        if asyncio.get_running_loop() is not self._loop:
            raise QueueClosedError("the queue is open in another event loop; open one in this one too")
        return self._loop.create_future()

    def _send_beside(self) -> None:
        self._gathered += self._beside
        self._beside = []
        self._unpark()

    def _unpark(self) -> None:
        if self._parked is not None:
            _wake(self._parked)

    async def _run(self) -> None:
        try:
            while self._gathered or self._beside or self._fetches or not self._closing:
                if not self._gathered:
                    self._parked = self._loop.create_future()
                    if self._beside:
                        self._loop.call_later(_BESIDE_S, self._send_beside)
                    await self._parked
                    self._parked = None
                    continue
                await self._keep_pace()
                batch, fetched = [*self._gathered, *self._beside], self._fetched_for
                self._gathered, self._beside, self._fetched_for = [], [], []
                self._under_way = batch
                rest = await self._committer.commit(batch)
                self._under_way = []
                self._upkeep.release(fetched)
                self._see_to(rest)
                if self._waiters and self._committer.state is not None:
                    self._wake_waiters(self._committer.state)
                if self._watchers and self._committer.state is not None:
                    self._wake_watchers(self._committer.state)
        finally:
            self._closing = True
            self._ticker.close()
            self._upkeep.abandon()
            self._committer.lookout.close()
            for fetch in self._fetches:
                fetch.cancel()
            refuse([*self._gathered, *self._beside], None)

    def _see_to(self, rest: Rest) -> None:
        self._gathered += [Pending(operation, None) for operation in rest.amends]
        for segments, deferred in rest.deferred.items():
            fetch = self._loop.create_task(self._fetch(segments, deferred), name="bucketq fetch")
            self._fetches[fetch] = deferred
            fetch.add_done_callback(self._fetched)
        self._upkeep.after_commit()
        self._ticker.after_commit()

    async def _fetch(self, segments: tuple[Needed, ...], deferred: list[Pending]) -> None:
        try:
            await self._upkeep.fetch(segments)
            self._fetched_for.append(segments[0])
            # There is progress: they have their whole time again.
            now_s = self._clock.monotonic_s()
            self._gathered[:0] = [one._replace(since_s=now_s) for one in deferred]
        except Exception as error:
            refuse(deferred, error)
        except asyncio.CancelledError:
            refuse(deferred, None)
            raise

    def _fetched(self, fetch: "asyncio.Task[None]") -> None:
        self._fetches.pop(fetch)
        self._unpark()

    async def _keep_pace(self) -> None:
        # A commit that was refused at first has sent its last write long after it began.
        last_s = max(self._last_commit_s, self._committer.sent_s)
        pause_s = last_s + self._committer.interval_s - self._clock.monotonic_s()
        if pause_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._in_haste.wait()
        self._last_commit_s = self._clock.monotonic_s()

    def _wake_waiters(self, state: QueueState) -> None:
        # As many as there are jobs: waking a thousand for one would cost a thousand dequeues.
        spare: dict[Wanted, int] = {}
        now, names, looked = self._clock.now(), 0, list[asyncio.Future[None]]()
        for waiter, wanted in self._waiters.items():
            names += len(names_of(wanted))
            if names > _NAMES_MAX:
                break
            looked.append(waiter)
            if wanted not in spare:
                spare[wanted] = state.claimable(wanted, now)
            if spare[wanted] > 0 and not waiter.done():
                waiter.set_result(None)
                spare[wanted] -= 1
        # The next commit, or look, begins with those that were left out.
        for waiter in looked if len(looked) < len(self._waiters) else ():
            self._waiters[waiter] = self._waiters.pop(waiter)

    def _wake_watchers(self, state: QueueState) -> None:
        # Only by news: they look again when they are woken, and would wake each other for ever.
        if state.version != self._watched_version:
            self._watched_version = state.version
            for watcher, watch in self._watchers.items():
                if watch.may_be_over(state):
                    _wake(watcher)

    async def _poll(self) -> None:
        # One look for all who wait: another process may have enqueued, a worker died, a job's time come.
        committer = self._committer
        while True:
            etag = committer.etag
            has_changed = await committer.lookout.wait(etag, self._until_next_look_s())
            if has_changed and (committer.is_busy or committer.etag != etag):
                # It is we who write. Those who wait are told when it has landed.
                await asyncio.sleep(_OWN_WRITE_S)
                continue
            with suppress(Exception):
                await self.submit(Refresh())

    def _until_next_look_s(self) -> float:
        state, now = self._committer.state, self._clock.now()
        moments = (state.next_due(), state.next_refill(now)) if state is not None else ()
        left_s = [(moment - now).total_seconds() for moment in moments if moment is not None]
        poll_s = self._committer.lookout.within_s(self._poll_interval_s)
        return min([poll_s, *(left for left in left_s if left > 0)])


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)
