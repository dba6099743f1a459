"""Storage: what is asked of it, and what that costs a month at the pace of the last minutes."""

from bucketq.account import Spending
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import card, cards, panel, text
from bucketq.dashboard.rereading import Rereading
from bucketq.dashboard.table import Column, Row, Table
from bucketq.prices import Prices, Requests
from bucketq.remote.queue import RemoteQueue
from bucketq.words import spell_count, spell_rate, spell_size, spell_time

_KINDS = {
    "reads": "reads of queue.json",
    "writes": "writes of queue.json",
    "object_reads": "reads of objects beside it",
    "object_writes": "writes of objects beside it",
    "lists": "lists",
    "deletes": "deletes",
}
_COLUMNS = (
    Column("kind", "Kind"),
    Column("total", "Requests", is_number=True),
    Column("per_s", "Now", is_number=True),
    Column("price", "A thousand cost", is_number=True),
    Column("dollars", "A month", is_number=True),
)


async def draw_storage(frame: Frame) -> None:
    """What it costs, then the requests by kind: of this broker, of the one that leads, or of this process."""
    queue, own = frame.visitor.queue, frame.house.spending
    with cards():
        cost, spent = card("a month"), card("so far")
        pace, size, took = card("writes of queue.json"), card("queue.json"), card("read in")
    held, note = text("p", "", "bq-notice"), text("p", "", "bq-note")
    is_all = own is None or frame.house.inside is not None
    whose = "the leader" if own is None else "this broker" if is_all else "this dashboard"
    with panel(f"Requests of {whose}"):
        kinds = Table(_COLUMNS, label=f"Requests of {whose}")

    def show(spending: Spending) -> None:
        if is_all:
            budget = spending.budget_per_month
            cost.show(
                _dollars(spending.dollars_per_month), f"of {_dollars(budget)}" if budget else "at this pace"
            )
        else:
            # Who writes is not known, but how often somebody does.
            writes = Requests(writes=frame.watch.history.commits_per_s)
            cost.show(_dollars(spending.prices.per_month(writes)), "all writes, about")
        spent.show(_dollars(spending.dollars), f"by {whose}")
        kinds.show(_rows(spending))
        held.text = _spell_held(spending)
        held.set_visibility(bool(held.text))
        note.text = _spell_prices(spending.prices, is_all)

    def show_look() -> None:
        if (look := frame.watch.look) is not None:
            pace.show(spell_rate(frame.watch.history.commits_per_s), "by all who write")
            size.show(spell_size(look.state.size), f"{len(look.state.backlog):,} segments")
            took.show(spell_time(look.took_s), f"version {look.state.version:,}")
        if (spending := frame.house.spending) is not None:
            show(spending)

    frame.each_second(show_look)
    if isinstance(queue, RemoteQueue) and own is None:
        Rereading(frame, queue.fetch_spending, show)
        show(await queue.fetch_spending())


def _rows(spending: Spending) -> list[Row]:
    rows: list[Row] = []
    for name, label in _KINDS.items():
        one, per_s = Requests(**{name: 1}), getattr(spending.per_s, name)
        rows.append(
            {
                "id": name,
                "kind": label,
                "total": spell_count(int(getattr(spending.requests, name))),
                "per_s": spell_rate(per_s),
                "price": _dollars(1000 * spending.prices.cost(one), digits=5),
                "dollars": _dollars(spending.prices.per_month(Requests(**{name: per_s}))),
            }
        )
    return rows


def _spell_held(spending: Spending) -> str:
    """What the budget does to the commits, if it does something."""
    budget = f"the budget of {_dollars(spending.budget_per_month)} a month"
    if spending.least_per_month is not None:
        least = _dollars(spending.least_per_month)
        return f"{budget.capitalize()} cannot be kept: this load costs {least} at the least. Work goes on."
    if not spending.interval_s:
        return ""
    return f"Commits are held {spell_time(spending.interval_s)} apart, to stay inside {budget}."


def _spell_prices(prices: Prices, is_all: bool) -> str:
    others = "" if is_all else " Those of workers and brokers are theirs: only their writes show here."
    return (
        f"Prices of {prices.of}, in US dollars, for requests alone; the settings price_per_1000_writes and"
        f" its kin change them.{others}"
    )


def _dollars(amount: float, digits: int = 2) -> str:
    """An amount of money.

    >>> _dollars(0), _dollars(0.0021), _dollars(12.5), _dollars(1234.5)
    ('$0', '< $0.01', '$12.50', '$1,234')
    >>> _dollars(0.0054, digits=5), _dollars(1, digits=5)
    ('$0.0054', '$1')
    """
    if not amount:
        return "$0"
    if digits == 2 and amount < 0.01:
        return "< $0.01"
    if digits == 2:
        return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"
    return f"${amount:,.{digits}f}".rstrip("0").rstrip(".")
