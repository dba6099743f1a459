"""Costs: by which prices a queue here reckons, what brokers cost at rest, and whether a budget bears that."""

from collections.abc import Iterator

from bucketq.doctor.finding import Finding, Level
from bucketq.prices import Requests, prices_of
from bucketq.settings import Settings

_ABOUT = "cost"
# A leader's heartbeats and the looks of one that waits, with the defaults.
_BEATS_PER_S = 1 / 3
_LOOKS_PER_S = 1.0


def estimate(url: str, endpoint_url: str | None, settings: Settings) -> Iterator[Finding]:
    """Tell what requests cost, without any."""
    prices = prices_of(url, endpoint_url, settings)
    leader, waiting = (
        prices.per_month(Requests(writes=_BEATS_PER_S)),
        prices.per_month(Requests(reads=_LOOKS_PER_S)),
    )
    if not leader + waiting:
        yield Finding(_ABOUT, Level.OK, f"requests cost nothing ({prices.of})")
        return
    found = (
        f"by the prices of {prices.of}, a broker at rest costs ${leader:,.2f} a month while it leads and"
        f" ${waiting:,.2f} while it waits; a commit each second ${3 * leader:,.2f}"
    )
    budget = settings.budget_per_month
    if 0 < budget < leader:
        advice = (
            f"The budget of ${budget:,.2f} is less than a leader costs at rest: its commits will be as far"
            " apart as they can be. See docs/operations.md, A budget."
        )
        yield Finding(_ABOUT, Level.WARNING, found, advice)
    else:
        inside = f"; the budget is ${budget:,.2f}" if budget else ""
        yield Finding(_ABOUT, Level.OK, found + inside)
