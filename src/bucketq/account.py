"""Account: the requests of one process to its storage, what they cost, and whether the budget bears it."""

import logging
from collections import deque
from dataclasses import dataclass

from bucketq.budget import Budget
from bucketq.clock import Clock
from bucketq.prices import MONTH_S, Prices, Requests

log = logging.getLogger("bucketq")

# The pace is that of the last minutes, told in steps; a process is not judged by its first moments.
_WINDOW_S = 300.0
_STEP_S = 10.0
_AT_LEAST_S = 60.0

# The places of `Requests`.
READ, WRITE, OBJECT_READ, OBJECT_WRITE, LIST, DELETE = range(6)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a process has asked of its storage, and what that costs, in US dollars."""

    # Since the queue was opened, or the broker started; and a second, in the last minutes.
    requests: Requests
    per_s: Requests
    prices: Prices
    dollars: float
    # At this pace.
    dollars_per_month: float
    # 0 is none.
    budget_per_month: float = 0.0
    # Whether commits are held back to stay inside, and how far they are apart because of it.
    is_held_back: bool = False
    interval_s: float = 0.0
    # What this load costs at the least if that is above the budget, with commits as far apart as they can be.
    least_per_month: float | None = None


class Account:
    """Counts requests as they are sent.

    Not under a lock: that would be inherited by a fork. At worst two threads lose a count to each other.
    """

    def __init__(self, prices: Prices, clock: Clock, budget: Budget | None = None) -> None:
        self.prices = prices
        self._clock = clock
        # Where nothing costs anything no budget is ever used up.
        self.budget = budget
        self._counts = [0] * 6
        self._price = [prices.cost(Requests(*(int(kind == one) for one in range(6)))) for kind in range(6)]
        self._began_s = clock.monotonic_s()
        # How many there were before each step that had any.
        self._steps: deque[tuple[float, Requests]] = deque()
        self._next_step_s = float("-inf")
        self._is_held = self._is_beyond = False

    def charge(self, kind: int) -> None:
        """A request is being sent: READ, WRITE, …"""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_step_s:
            self._step(now_s)
        self._counts[kind] += 1
        if self.budget is not None:
            self.budget.spend(self._price[kind], now_s)

    @property
    def requests(self) -> Requests:
        """How many there were."""
        return Requests(*self._counts)

    def interval_s(self) -> float:
        """How far commits have to be apart to stay inside the budget. What changes is logged."""
        if self.budget is None:
            return 0.0
        now_s = self._clock.monotonic_s()
        self._tell(self.budget, now_s)
        return self.budget.interval_s(now_s)

    def spending(self) -> Spending:
        """How things stand."""
        now_s = self._clock.monotonic_s()
        per_s, budget = self._per_s(now_s), self.budget
        return Spending(
            requests=self.requests,
            per_s=per_s,
            prices=self.prices,
            dollars=self.prices.cost(self.requests),
            dollars_per_month=self.prices.per_month(per_s),
            budget_per_month=budget.per_s * MONTH_S if budget else 0.0,
            is_held_back=budget is not None and budget.is_held(now_s),
            interval_s=budget.interval_s(now_s) if budget else 0.0,
            least_per_month=self._beyond(budget, now_s) if budget else None,
        )

    def _step(self, now_s: float) -> None:
        self._steps.append((now_s, self.requests))
        self._next_step_s = now_s + _STEP_S
        while self._steps[0][0] < now_s - _WINDOW_S:
            self._steps.popleft()

    def _per_s(self, now_s: float) -> Requests:
        before = next((counts for at_s, counts in self._steps if at_s >= now_s - _WINDOW_S), self.requests)
        passed_s = min(_WINDOW_S, max(_AT_LEAST_S, now_s - self._began_s))
        pairs = zip(self._counts, before, strict=True)
        return Requests(*((count - earlier) / passed_s for count, earlier in pairs))

    def _beyond(self, budget: Budget, now_s: float) -> float | None:
        """What the load costs a month at the widest interval, if that is more than there is."""
        if not budget.is_spent(now_s):
            return None
        per_s = self._per_s(now_s)
        least = self.prices.per_month(per_s._replace(writes=min(per_s.writes, 1 / budget.widest_s)))
        return least if least > budget.per_s * MONTH_S else None

    def _tell(self, budget: Budget, now_s: float) -> None:
        was_held, self._is_held = self._is_held, budget.is_held(now_s)
        dollars = budget.per_s * MONTH_S
        if self._is_held and not was_held:
            log.warning(
                "commits are held back to stay inside the budget of $%.2f a month; at the pace of the last"
                " minutes it would be $%.2f",
                dollars,
                self.prices.per_month(self._per_s(now_s)),
            )
        if was_held and not self._is_held:
            self._is_beyond = False
            log.info("commits are not held back any more: there is room in the budget of $%.2f", dollars)
        if not self._is_beyond and (least := self._beyond(budget, now_s)) is not None:
            self._is_beyond = True
            log.warning(
                "the budget of $%.2f a month cannot be kept: with commits %.3g s apart, which is as far as"
                " they can be, this load costs about $%.2f. It goes on all the same",
                dollars,
                budget.widest_s,
                least,
            )
