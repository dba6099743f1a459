"""Broker: leads while it can, waits while another leads.

    waiting ── nobody leads, or the leader's heart stands still; elected ──▶ leading
       ▲                                                                       │
       └── deposed by another, or cut off from the storage for too long ───────┘

A broker that starts at the address of the leader, on the same machine, replaces it and doesn't wait.
Only the one that leads serves. That two could for a moment both believe it is no danger,
because every write is a compare-and-set; but it would be slow, so one of them steps down.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bucketq.account import Spending
from bucketq.broker.served import ServedQueue
from bucketq.clock import Clock, SystemClock
from bucketq.codec import leader_of
from bucketq.deadline import hedged
from bucketq.election import Election, Leader, LeaderWatch
from bucketq.embedded import WIDEST_S
from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    NotLeaderError,
    NotWrittenError,
    QueueClosedError,
)
from bucketq.figures import Figures
from bucketq.glance import Glance
from bucketq.mint import Mint
from bucketq.pending import ignore
from bucketq.prices import Requests
from bucketq.settings import Settings
from bucketq.state import Stats
from bucketq.storage import ThrottledStorage, ThrottleStats
from bucketq.storage.counted import CountedBucket, open_account
from bucketq.storage.port import Bucket, describe

T = TypeVar("T")

log = logging.getLogger("bucketq")

# How often one that waits looks: a broker that steps down is followed within this time.
_LOOK_EVERY_S = 1.0
# At the end: for what the broker itself is waiting for, and to finish what clients have asked and step down.
_UNDER_WAY_S = 2.0
_STEP_DOWN_S = 12.0


@dataclass(frozen=True, kw_only=True)
class Beats:
    """How often a leader's heart beats, and for how long it may stand still.

    Three beats fit into the timeout, so that one that is late costs no election.
    """

    interval_s: float = 3.0
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.interval_s < self.timeout_s:
            raise ConfigurationError(
                f"the heartbeat interval ({self.interval_s:g} s) must be above 0 and below"
                f" the heartbeat timeout ({self.timeout_s:g} s)"
            )


class _Term:
    """The time during which a broker leads."""

    def __init__(self, queue: ServedQueue, leader: Leader) -> None:
        self.queue = queue
        self.leader = leader
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whether what is still waited for may have been done, or be done yet.
        self.may_be_done = True

    def end(self) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)


class Broker:
    """One of any number of brokers for a queue; `run` it until it is stopped.

    `address`, where clients reach it, is to be set before, and `http`, if it listens there too.
    """

    def __init__(
        self,
        storage: Bucket,
        settings: Settings | None = None,
        beats: Beats | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        self.address = ""
        self.http = ""
        # Whether that address is one of this machine, at the port where this process listens. A leader that
        # had the same address before is gone then: two processes can't listen there.
        self.is_at_home = False
        self._given = storage
        self.settings = settings or Settings()
        self._beats = beats or Beats()
        wait_s = _wait_for_writes_s(storage)
        slowest_s = self.settings.commit_interval_s + wait_s
        if slowest_s + self._beats.interval_s >= self._beats.timeout_s:
            raise ConfigurationError(
                f"with up to {slowest_s:g} s from commit to commit and a heartbeat every"
                f" {self._beats.interval_s:g} s, a timeout of {self._beats.timeout_s:g} s is too short"
            )
        self._clock = clock or SystemClock()
        # The half of what a heartbeat may be late leaves the other half to a slow storage.
        spare_s = (self._beats.timeout_s - self._beats.interval_s - wait_s) / 2
        # A heartbeat, or an election, whose request is lost is sent again while it still counts.
        self._answer_within_s = spare_s + wait_s
        widest_s = min(WIDEST_S, self.settings.stale_after_s / 6, spare_s)
        self._account = open_account(storage, self.settings, self._clock, widest_s)
        self._storage = CountedBucket(storage, self._account)
        self._mint = mint or Mint()
        # Another one each time, so that a broker that was restarted is not taken for itself.
        self.id = self._mint.token()
        # Those of all its terms, how many there were, and how often it saw the lead pass to another term.
        self.figures = Figures()
        self.terms = 0
        self.leader_changes = 0
        self._epoch: int | None = None
        self._watch = LeaderWatch(self._beats.timeout_s)
        self._etag: str | None = None
        self._known: Leader | None = None
        # The leader that this broker found at its own address when it started.
        self._predecessor: Leader | None = None
        self._has_looked = False
        self._term: _Term | None = None
        # Why this broker cannot lead, while nobody else does: the storage takes no write.
        self._trouble: NotWrittenError | None = None
        self._stopping = asyncio.Event()
        self._scope: asyncio.Timeout | None = None
        self._changed = asyncio.Event()

    @property
    def is_leading(self) -> bool:
        """Whether this broker leads, as far as it knows."""
        return self._term is not None

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as this broker knows."""
        return self._term.leader if self._term else self._known

    @property
    def known_stats(self) -> Stats | None:
        """The numbers as the last commit left them; None if this broker does not lead."""
        return self._term.queue.known_stats if self._term else None

    def check_leading(self) -> None:
        """Raise NotLeaderError if this broker does not lead; NotWrittenError if it cannot."""
        if self._term is None or self._stopping.is_set():
            raise self._not_leading()

    async def wait_deposed(self, timeout_s: float) -> None:
        """Return when this broker leads no more, or when the time is up."""
        if self._term is not None:
            await asyncio.wait((self._term.is_over,), timeout=timeout_s)

    def glance(self) -> Glance | None:
        """How the queue stands, at no cost; None if this broker does not lead."""
        return self._term.queue.glance() if self._term else None

    @property
    def storage(self) -> Bucket:
        """Where the queue is; what is asked of it counts as the broker's own requests."""
        return self._storage

    @property
    def least_per_month(self) -> float:
        """What leading costs at the least, in dollars: a heartbeat now and then, and nothing else to do."""
        budget = self._account.budget
        apart_s = max(self._beats.interval_s, budget.widest_s if budget else 0.0)
        return self._account.prices.per_month(Requests(writes=1 / apart_s))

    @property
    def spending(self) -> Spending:
        """The requests to the storage so far, what they cost, and whether a budget holds commits back."""
        return self._account.spending()

    @property
    def throttle(self) -> ThrottleStats | None:
        """What was asked of the storage, if that is throttled."""
        return self._given.stats if isinstance(self._given, ThrottledStorage) else None

    async def lead(
        self,
        work: Callable[[ServedQueue], Awaitable[T]],
        if_abandoned: Callable[[ServedQueue, T], object] | None = None,
    ) -> T:
        """Have something done as the leader. Raises NotLeaderError, also if the term ends meanwhile.

        If the term ended because the storage takes no write, it raises that NotWrittenError instead.
        `if_abandoned` sets an answer right that came in the instant in which its caller went away.
        """
        term = self._term
        if term is None or self._stopping.is_set():
            raise self._not_leading()
        working = asyncio.ensure_future(work(term.queue))
        # Its caller may be gone, and its term over, before it ends with an error.
        working.add_done_callback(ignore)
        try:
            await asyncio.wait((working, term.is_over), return_when=asyncio.FIRST_COMPLETED)
            # If it was cancelled, that was the end of the term.
            if working.done() and not working.cancelled():
                with suppress(QueueClosedError):
                    return working.result()
            raise self._not_leading(may_be_done=term.may_be_done)
        except asyncio.CancelledError:
            if working.done() and if_abandoned and not working.cancelled() and not working.exception():
                if_abandoned(term.queue, working.result())
            raise
        finally:
            if not working.done():
                working.cancel()

    def _not_leading(self, *, may_be_done: bool = False) -> NotLeaderError | NotWrittenError:
        if self._trouble is not None and not may_be_done:
            return type(self._trouble)(str(self._trouble))
        known = self._known
        if known is None or known.broker == self.id:
            return NotLeaderError(may_be_done=may_be_done)
        return NotLeaderError(known.address, http=known.http, may_be_done=may_be_done)

    async def wait_changed(self) -> None:
        """Return when the broker has begun to lead, or ended, since the last time."""
        await self._changed.wait()
        self._changed.clear()

    def stop(self) -> None:
        """Make `run` finish: take nothing more, flush, step down, return."""
        self._stopping.set()
        if self._term is not None:
            self._term.queue.make_haste()
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time() + _UNDER_WAY_S)

    async def run(self) -> None:
        """Wait, be elected, lead, and so on, until `stop`."""
        if 0 < self.settings.budget_per_month < self.least_per_month:
            log.warning(
                "the budget of $%.2f a month cannot be kept: the heartbeat of a leader alone costs about"
                " $%.2f; with longer --heartbeat-interval-s and --heartbeat-timeout-s it costs less",
                self.settings.budget_per_month,
                self.least_per_month,
            )
        try:
            async with asyncio.timeout(None) as self._scope:
                while not self._stopping.is_set():
                    term = await self._wait_for_election()
                    if term is not None:
                        await self._keep_leading(term)
        except TimeoutError:
            log.warning("stopping while the storage does not answer")
        finally:
            self._scope, term, self._term = None, self._term, None
            self._changed.set()
            if term is not None:
                try:
                    await term.queue.resign(self.id, _STEP_DOWN_S)
                    log.info("stepped down", extra={"epoch": term.leader.epoch})
                except (BucketQError, OSError) as error:
                    log.error(
                        "the storage did not take all that clients had asked, and that this broker steps"
                        " down (%s): another one takes over in up to %g s",
                        str(error) or repr(error),
                        self._beats.timeout_s,
                        extra={"epoch": term.leader.epoch},
                    )
                finally:
                    term.end()

    async def _wait_for_election(self) -> _Term | None:
        while not self._stopping.is_set():
            try:
                await self._look()
                stale = self._watch.stale(self._clock.monotonic_s()) or self._predecessor
                is_mine = self._known is not None and self._known.broker == self.id
                is_free = self._known in (None, stale) or is_mine
                if is_free and (term := await self._stand(stale)):
                    return term
            except TimeoutError:
                log.warning("no election was stored within %g s%s", self._beats.timeout_s, self._told_trouble)
            except (BucketQError, OSError) as error:
                log.warning("the queue cannot be looked at: %s", error)
            except Exception:
                log.exception("the queue cannot be looked at")
            await self._sleep(min(_LOOK_EVERY_S, self._beats.interval_s))
        return None

    async def _look(self) -> None:
        # One unanswered request must not hold up a takeover.
        after_s = min(_LOOK_EVERY_S, self._beats.timeout_s / 4)
        found = await hedged(partial(self._storage.read_if_changed, self._etag), after_s)
        if found is not None:
            content, self._etag = found
            leader = leader_of(content, describe(self._storage)) if self._etag else None
            is_new = self._known is None or leader is None or leader.epoch != self._known.epoch
            if leader is not None and leader != self._known and leader.broker != self.id:
                self._trouble = None
            if leader is not None and is_new and leader.broker != self.id:
                whose = (
                    "an earlier process led here" if self._is_predecessor(leader) else "another broker leads"
                )
                log.info("%s: %s", whose, leader.address or leader.http, extra={"epoch": leader.epoch})
            self._known = leader
            self._note_epoch(leader)
        if self._is_predecessor(self._known):
            self._predecessor = self._known
        self._has_looked = True
        self._watch.observe(self._known, self._clock.monotonic_s())

    def _is_predecessor(self, leader: Leader | None) -> bool:
        # Only at the first look. A leader that comes later, or still beats, is on another host of this name.
        is_here = leader is not None and (leader.address or leader.http) == (self.address or self.http)
        return is_here and self.is_at_home and not self._has_looked

    async def _stand(self, stale: Leader | None) -> _Term | None:
        """Stand for election. Each time with a queue of its own: it gives running jobs a fresh timeout."""
        queue = ServedQueue(self._given, self.settings, self._clock, self._mint, self.figures, self._account)
        queue.answer_within_s = self._answer_within_s
        await queue.__aenter__()
        elected, leader = False, None
        try:
            # Who is elected only later would not be trusted any more.
            async with asyncio.timeout(self._beats.timeout_s):
                outcome, leader = await queue.stand(self.id, self.address, stale, self.http)
            elected = outcome in (Election.ELECTED, Election.ALREADY_LEADER)
            if not elected or leader is None:
                self._known = leader or self._known
                return None
        finally:
            # While another broker leads, clients have to go there.
            self._trouble = queue.writes.trouble if elected or leader is None else None
            if not elected:
                queue.abandon()
        log.info("leading, at %s", self.address or self.http, extra={"epoch": leader.epoch})
        return _Term(queue, leader)

    async def _keep_leading(self, term: _Term) -> None:
        self._term = term
        self.terms += 1
        self._note_epoch(term.leader)
        self._changed.set()
        # Others have seen that it lives no sooner than that was sent, however long it waited for its turn.
        alive_s = term.queue.landed_sent_s
        while not self._stopping.is_set():
            trusted_until_s = alive_s + self._beats.timeout_s
            await self._sleep(min(self._beats.interval_s, trusted_until_s - self._clock.monotonic_s()))
            if self._stopping.is_set():
                return
            try:
                async with asyncio.timeout(max(0, trusted_until_s - self._clock.monotonic_s())):
                    leader = await term.queue.beat(self.id)
                    alive_s = term.queue.landed_sent_s
            except TimeoutError:
                leader, why = None, "no heartbeat was stored for too long"
            except (BucketQError, OSError) as error:
                log.warning("a heartbeat did not get through: %s", error, extra={"epoch": term.leader.epoch})
                continue
            except Exception:
                # A broker that ends because of it would be no help; if it lasts, the timeout ends the term.
                log.exception("a heartbeat did not get through", extra={"epoch": term.leader.epoch})
                continue
            else:
                why = "another broker was elected"
            if leader is None or leader.broker != self.id:
                self._depose(term, leader, why)
                return

    def _note_epoch(self, leader: Leader | None) -> None:
        if leader is not None:
            self.leader_changes += self._epoch not in (None, leader.epoch)
            self._epoch = leader.epoch

    def _depose(self, term: _Term, leader: Leader | None, why: str) -> None:
        if leader is None:
            writes = term.queue.writes
            self._trouble = writes.trouble
            term.may_be_done = writes.trouble is None or writes.may_land
        log.warning("leading no more: %s%s", why, self._told_trouble, extra={"epoch": term.leader.epoch})
        self._term, self._known, self._etag = None, leader, None
        self._changed.set()
        self._watch.observe(leader, self._clock.monotonic_s())
        term.end()
        term.queue.abandon()

    @property
    def _told_trouble(self) -> str:
        return f": {self._trouble}" if self._trouble is not None else ""

    async def _sleep(self, duration_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(duration_s):
                await self._stopping.wait()


def _wait_for_writes_s(storage: Bucket) -> float:
    """How long a heartbeat may wait for writes: for that of a commit under way, and for its own."""
    limit_per_s = storage.stats.writes.limit_per_s if isinstance(storage, ThrottledStorage) else None
    # Each goes at the latest after one for an object.
    return 4 / limit_per_s if limit_per_s else 0.0
