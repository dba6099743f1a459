"""What a process has asked of its storage, and what that costs, in JSON."""

from typing import Self

from msgspec import UNSET, UnsetType

from bucketq.account import Spending
from bucketq.prices import Requests
from bucketq.told.shape import Told
from bucketq.words import spell_time


class RequestsTold(Told, omit_defaults=False):
    """Requests by kind: of queue.json, and of the objects beside it."""

    reads: float
    writes: float
    object_reads: float
    object_writes: float
    lists: float
    deletes: float

    @classmethod
    def of(cls, requests: Requests) -> Self:
        """Requests as they are told."""
        return cls(**requests._asdict())


class SpendingTold(Told, omit_defaults=False):
    """What requests cost, in US dollars, by the prices that are named; a month has 31 days.

    `requestsPerSecond` and `dollarsPerMonth` are the pace of the last five minutes. `heldSeconds` is how far
    the budget holds commits apart. `leastPerMonth` is there if the budget cannot be kept: so much this load
    costs at the least.
    """

    requests: RequestsTold
    requests_per_second: RequestsTold
    prices_of: str
    dollars: float
    dollars_per_month: float
    budget_per_month: float
    is_held_back: bool
    held_seconds: float
    least_per_month: float | UnsetType = UNSET

    @classmethod
    def of(cls, spending: Spending) -> Self:
        """Spending as it is told."""
        return cls(
            requests=RequestsTold.of(spending.requests),
            requests_per_second=RequestsTold.of(spending.per_s),
            prices_of=spending.prices.of,
            dollars=spending.dollars,
            dollars_per_month=spending.dollars_per_month,
            budget_per_month=spending.budget_per_month,
            is_held_back=spending.is_held_back,
            held_seconds=spending.interval_s,
            least_per_month=UNSET if spending.least_per_month is None else spending.least_per_month,
        )

    def spelt(self) -> str:
        """The same in a line."""
        told = f"${self.dollars_per_month:,.2f} a month at this pace, by the prices of {self.prices_of}"
        if not self.budget_per_month:
            return told
        told += f"; the budget is ${self.budget_per_month:,.2f}"
        if self.least_per_month is not UNSET:
            return f"{told}, which cannot be kept: this load costs ${self.least_per_month:,.2f} at the least"
        return (
            f"{told}, and holds commits {spell_time(self.held_seconds)} apart" if self.held_seconds else told
        )
