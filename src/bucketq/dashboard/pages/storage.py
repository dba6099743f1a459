"""Storage: what is asked of it, and what that costs a month at the pace of the last minutes."""

from bucketq.account import Spending
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import card, cards, panel, text
from bucketq.dashboard.table import Column, Row, Table
from bucketq.prices import Prices, Requests
from bucketq.words import spell_count, spell_rate, spell_size, spell_time

_KINDS = {
    "reads": "reads of queue.json",
    "writes": "writes of queue.json",
    "object_reads": "reads of objects beside it",
    "object_writes": "writes of objects beside it",
    "lists": "lists",
    "deletes": "deletes",
}


def draw_storage(frame: Frame) -> None:
    """What it costs, then the requests by kind."""
    is_on_broker = frame.house.inside is not None
    with cards():
        if frame.house.spending is not None:
            cost = card("a month" if is_on_broker else "a month, all writers")
            spent = card("so far")
        pace = card("writes of queue.json")
        size = card("queue.json")
        took = card("read in")
    note = text("p", "", "bq-note")
    if frame.house.spending is not None:
        whose = "this broker" if is_on_broker else "this dashboard"
        with panel(f"Requests of {whose}"):
            kinds = Table(
                [
                    Column("kind", "Kind"),
                    Column("total", "Requests", is_number=True),
                    Column("per_s", "Now", is_number=True),
                    Column("price", "A thousand cost", is_number=True),
                    Column("dollars", "A month", is_number=True),
                ],
                label=f"Requests of {whose}",
            )

    def show() -> None:
        look, spending = frame.watch.look, frame.house.spending
        commits_per_s = frame.watch.history.commits_per_s
        pace.show(spell_rate(commits_per_s), "by all who write")
        if look is not None:
            size.show(spell_size(look.state.size), f"{len(look.state.backlog):,} segments")
            took.show(spell_time(look.took_s), f"version {look.state.version:,}")
        if spending is None:
            note.text = "What the storage is asked, and what that costs, the brokers' own dashboard tells."
            return
        if is_on_broker:
            cost.show(_dollars(spending.dollars_per_month), _spell_budget(spending))
        else:
            everybody = spending.prices.per_month(Requests(writes=commits_per_s))
            cost.show(_dollars(everybody), "their writes, about")
        spent.show(_dollars(spending.dollars), "since it began")
        kinds.show(_rows(spending))
        note.text = _spell_prices(spending.prices, is_on_broker)

    frame.each_second(show)


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


def _spell_budget(spending: Spending) -> str:
    if not spending.budget_per_month:
        return "at this pace"
    if spending.least_per_month is not None:
        return f"beyond the budget of {_dollars(spending.budget_per_month)}"
    held = f", commits {spell_time(spending.interval_s)} apart for it" if spending.is_held_back else ""
    return f"of {_dollars(spending.budget_per_month)}{held}"


def _spell_prices(prices: Prices, is_on_broker: bool) -> str:
    others = "" if is_on_broker else " Those of workers and brokers are theirs: only their writes show here."
    return (
        f"Prices of {prices.of}, in US dollars, for requests alone; the settings price_per_1000_writes and"
        f" its kin change them.{others}"
    )


def _dollars(amount: float, digits: int = 2) -> str:
    """An amount of money.

    >>> _dollars(0), _dollars(0.0021), _dollars(1234.5), _dollars(0.0054, digits=5)
    ('$0', '< $0.01', '$1,234.50', '$0.0054')
    """
    if not amount:
        return "$0"
    if digits == 2 and amount < 0.01:
        return "< $0.01"
    return f"${amount:,.2f}" if digits == 2 else f"${amount:.{digits}f}".rstrip("0")
