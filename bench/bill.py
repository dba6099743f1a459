"""Bill: what the counted requests are in money, beside SQS, as the tables of docs/cost.md.

    python -m bench --only cost       counts everything anew, and writes the tables into the page

Between the markers of the page nothing is written by hand. Counts are made in virtual time, so they are
the same on every machine, and a test compares some rows with the page.
"""

import multiprocessing
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import bulk
from bench.cost import HOUR_S, Count, Load, Setting, count
from bucketq import Settings
from bucketq.broker.broker import Beats
from bucketq.prices import MONTH_S, S3, Requests

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cost.md"

# Standard queues in us-east-1, 2026-11: dollars for a request, and how many are free each month.
SQS_REQUEST = 0.40 / 1e6
SQS_FREE = 1e6
# To send, to receive and to delete; and the same with ten jobs in each request.
SQS_SINGLY, SQS_BY_TENS = 3.0, 0.3

# Jobs a second, and for how long they come: at the slowest the hourly upkeep is among what is counted.
RATES = {0.1: 2 * HOUR_S, 1.0: 900.0, 10.0: 150.0, 100.0: 30.0}
# What every job needs of the archive, at the least: an object for so many.
_ARCHIVED_TOGETHER = Settings().archive_jobs_max

Job = Callable[[], Count]


@dataclass(frozen=True)
class Way:
    """A setting with a name for the tables."""

    name: str
    setting: Setting


def _embedded(processes: str, workers: int, *intervals_s: float) -> list[Way]:
    return [
        Way(
            f"`BrokerQueue`, {processes}, {_interval(interval_s)}",
            Setting(
                kind="embedded",
                workers=workers,
                together=not workers,
                settings=Settings(commit_interval_s=interval_s),
            ),
        )
        for interval_s in intervals_s
    ]


def _interval(interval_s: float) -> str:
    return f"{interval_s:g} s"


def _brokers(*intervals_s: float) -> list[Way]:
    return [
        Way(
            f"two brokers and their clients, {_interval(interval_s)}",
            Setting(kind="broker", settings=Settings(commit_interval_s=interval_s)),
        )
        for interval_s in intervals_s
    ]


WAYS = [
    Way("`DirectQueue`, two processes", Setting(kind="direct", workers=1)),
    *_embedded("one process", 0, 0, 0.1, 1, 2, 10),
    *_embedded("three processes", 2, 0, 1, 10),
    *_brokers(0, 0.1, 1, 2),
]

_SECOND = Settings(commit_interval_s=1)
_HERE = partial(Setting, kind="embedded", workers=0, together=True)
_SLOW_BEATS = Beats(interval_s=10, timeout_s=40)
_TEN_S = Settings(poll_interval_s=10)

REST = {
    "one process, no worker": Setting(kind="embedded", workers=0),
    "one process whose worker waits": _HERE(),
    "the same, `poll_interval_s` = 10": _HERE(settings=_TEN_S),
    "two worker processes that wait": Setting(kind="embedded"),
    "two brokers without clients": Setting(kind="broker", workers=0),
    "two brokers, two workers that wait": Setting(kind="broker"),
    "the same, heartbeats each 10 s": Setting(kind="broker", beats=_SLOW_BEATS),
}

LOADS = {
    "10 jobs/s": partial(count, _HERE(settings=_SECOND), Load(per_s=10, seconds=150)),
    "10 jobs/s, `archive` off": partial(
        count, _HERE(settings=Settings(commit_interval_s=1, archive=False)), Load(per_s=10, seconds=150)
    ),
    "bursts of 1,000, 10 jobs/s on average": partial(
        count, _HERE(settings=_SECOND), Load(per_s=10, seconds=1000, burst=1000)
    ),
    "1 job/s with a payload of 200 KB": partial(
        count, _HERE(settings=_SECOND), Load(per_s=1, seconds=1200, payload_bytes=200_000)
    ),
    "the same, `archive_payloads` on": partial(
        count,
        _HERE(settings=Settings(commit_interval_s=1, archive_payloads=True)),
        Load(per_s=1, seconds=1200, payload_bytes=200_000),
    ),
    "0.1 jobs/s that run for 10 minutes": partial(
        count, _HERE(settings=_SECOND), Load(per_s=0.1, seconds=2 * HOUR_S, run_s=600)
    ),
    "`enqueue`, one call after the other": partial(bulk.count_bulk, bulk.FEW, None, bulk.enqueue_one_by_one),
    "`enqueue`, 1,000 callers at once": partial(bulk.count_bulk, bulk.FEW, None, bulk.enqueue_together),
    "`enqueue_many` of 1,000": partial(bulk.count_bulk, bulk.FEW, None, bulk.enqueue_many),
    "`enqueue_many` of 100,000": partial(bulk.count_bulk, bulk.MANY, None, bulk.enqueue_many),
    "100,000 rows written by Spark, 8 tasks": partial(bulk.count_bulk, bulk.MANY, None, bulk.load_by_spark),
    "100,000 waiting jobs taken, 100 at a time": partial(
        bulk.count_bulk, bulk.MANY, bulk.enqueue_many, bulk.drain
    ),
    "100,000 waiting jobs taken by a Spark fleet": partial(
        bulk.count_bulk, bulk.MANY, bulk.load_by_spark, bulk.drain_segments
    ),
}

# These are soon counted.
_QUICK_WAY = "`BrokerQueue`, one process, 1 s"
_QUICK_LOADS = ("`enqueue`, 1,000 callers at once", "`enqueue_many` of 1,000", "`enqueue_many` of 100,000")

# At a job a second, after the purse of the first hour is used up.
BUDGETS = {
    budget: partial(
        count,
        _HERE(settings=Settings(budget_per_month=budget)),
        Load(per_s=1, seconds=900, warm_s=1200),
    )
    for budget in (0.0, 10.0, 5.0, 2.0, 1.0)
}


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    name: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def __str__(self) -> str:
        lines = [self.head, tuple("---" for _ in self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sqs_per_month(jobs_per_s: float, requests_per_job: float) -> float:
    """What SQS asks for so many jobs, in dollars."""
    return max(0.0, jobs_per_s * MONTH_S * requests_per_job - SQS_FREE) * SQS_REQUEST


def estimate_per_month(jobs_per_s: float, interval_s: float) -> float:
    """What one busy writer costs: a commit each interval, and an object of the archive now and then."""
    per_s = Requests(writes=1 / interval_s, object_writes=jobs_per_s / _ARCHIVED_TOGETHER)
    return S3.per_month(per_s)


def break_even_per_s(interval_s: float, requests_per_job: float) -> float:
    """From how many jobs a second on a commit each interval costs less than SQS."""
    a_job = requests_per_job * SQS_REQUEST - S3.cost(Requests(object_writes=1 / _ARCHIVED_TOGETHER))
    return (estimate_per_month(0, interval_s) + SQS_FREE * SQS_REQUEST) / (a_job * MONTH_S)


def measure() -> list[Table]:
    """Count everything, on all cores, and make the tables."""
    rests = {name: partial(count, setting, Load(seconds=2 * HOUR_S)) for name, setting in REST.items()}
    by_rate = {way.name: [counting(way, rate) for rate in RATES] for way in WAYS}
    jobs = [*(job for row in by_rate.values() for job in row), *rests.values(), *LOADS.values()]
    jobs += BUDGETS.values()
    # Not forked: a process with threads must not be.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        found = iter(list(pool.map(_call, jobs)))
    ways = {name: [next(found) for _ in row] for name, row in by_rate.items()}
    return [
        _by_rate("requests", ways, requests_cell),
        _by_rate("waits", ways, wait_cell),
        _months(ways),
        _at_rest({name: next(found) for name in rests}),
        _loads({name: next(found) for name in LOADS}),
        _break_evens(),
        _budgets({budget: next(found) for budget in BUDGETS}),
    ]


def measure_little() -> list[Table]:
    """Some rows of the tables, as they stand in the page."""
    ways = {way.name: [counting(way, rate)() for rate in RATES] for way in WAYS if way.name == _QUICK_WAY}
    loads = {name: LOADS[name]() for name in _QUICK_LOADS}
    return [
        _by_rate("requests", ways, requests_cell),
        _by_rate("waits", ways, wait_cell),
        _months(ways),
        _loads(loads),
        _break_evens(),
    ]


def counting(way: Way, per_s: float) -> Job:
    """The counting of a way at a rate."""
    return partial(count, way.setting, Load(per_s=per_s, seconds=RATES[per_s]))


def write_page(tables: Sequence[Table], page: Path = PAGE) -> None:
    """Put the tables between their markers."""
    text = page.read_text()
    for table in tables:
        text, times = _marked(table.name).subn(
            lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}", text
        )
        if times != 1:
            raise ValueError(f"{page} has no place for the table {table.name}")
    page.write_text(text)


def read_page(name: str, page: Path = PAGE) -> str:
    """A table as it stands in the page."""
    found = _marked(name).search(page.read_text())
    if found is None:
        raise ValueError(f"{page} has no table {name}")
    return found[0]


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- counted: {name} -->)\n.*?(<!-- end of {name} -->)", re.DOTALL)


def _call(job: Job) -> Count:
    return job()


def requests_cell(found: Count, per_s: float) -> str:
    """Writes and lists, then reads, for a thousand jobs."""
    if is_too_slow(found, per_s):
        return "too slow"
    dear, cheap = _by_price(found.per_1000_jobs)
    return f"{dear:,.0f} / {cheap:,.0f}"


def wait_cell(found: Count, per_s: float) -> str:
    """Seconds until a job begins."""
    return "too slow" if is_too_slow(found, per_s) else f"{found.wait_s:.2f}"


def is_too_slow(found: Count, per_s: float) -> bool:
    """Whether jobs pile up."""
    return found.jobs < 0.9 * per_s * found.seconds


def _by_price(requests: Requests) -> tuple[float, float]:
    dear = requests.writes + requests.object_writes + requests.lists
    return dear, requests.reads + requests.object_reads


def _by_rate(name: str, ways: dict[str, list[Count]], cell: Callable[[Count, float], str]) -> Table:
    rows = [(way, *map(cell, counts, RATES)) for way, counts in ways.items()]
    return Table(name, ("", *(f"{rate:g} jobs/s" for rate in RATES)), rows)


def _months(ways: dict[str, list[Count]]) -> Table:
    def dollars(found: Count, per_s: float) -> str:
        # A thousand jobs are counted, and not a moment with more or fewer of them than on average.
        paid = S3.cost(found.per_1000_jobs) / 1000 * per_s * MONTH_S
        return "too slow" if is_too_slow(found, per_s) else f"{paid:,.2f}"

    table = _by_rate("months", ways, dollars)
    for name, requests in (("SQS, 3 requests a job", SQS_SINGLY), ("SQS, by tens", SQS_BY_TENS)):
        table.rows.append((name, *(f"{sqs_per_month(rate, requests):,.2f}" for rate in RATES)))
    return table


def _at_rest(counts: dict[str, Count]) -> Table:
    rows = []
    for name, found in counts.items():
        an_hour = Requests(*(HOUR_S * pace for pace in found.per_s))
        dear, cheap = _by_price(an_hour)
        rows.append((name, f"{dear:,.0f}", f"{cheap:,.0f}", f"{S3.per_month(found.per_s):,.2f}"))
    return Table("rest", ("", "writes and lists an hour", "reads an hour", "dollars a month"), rows)


def _loads(counts: dict[str, Count]) -> Table:
    head = ("for 1,000 jobs", "commits", "objects written", "lists", "reads", "objects read", "deletes")
    rows = []
    for name, found in counts.items():
        a_thousand = found.per_1000_jobs
        cells = (
            a_thousand.writes,
            a_thousand.object_writes,
            a_thousand.lists,
            a_thousand.reads,
            a_thousand.object_reads,
            a_thousand.deletes,
        )
        dollars = 1000 * S3.cost(a_thousand)
        rows.append(
            (name, *(_short(cell) for cell in cells), f"{dollars:,.2f}" if dollars >= 0.01 else "< 0.01")
        )
    return Table("loads", (*head, "dollars a million jobs"), rows)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or not number else f"{number:.2g}"


def _break_evens() -> Table:
    rows = []
    for interval_s in (0.03, 0.1, 1.0, 2.0, 10.0):
        singly, by_tens = (break_even_per_s(interval_s, each) for each in (SQS_SINGLY, SQS_BY_TENS))
        dollars = f"{estimate_per_month(0, interval_s):,.2f}"
        rows.append((_interval(interval_s), dollars, f"{singly:,.1f}", f"{by_tens:,.0f}"))
    head = ("a commit each", "dollars a month, without the archive", "3 requests a job", "by tens")
    return Table("break-even", head, rows)


def _budgets(counts: dict[float, Count]) -> Table:
    rows = [
        (f"{budget:g}" if budget else "none", f"{S3.per_month(found.per_s):,.2f}", f"{found.wait_s:.1f}")
        for budget, found in counts.items()
    ]
    return Table("budgets", ("`budget_per_month`", "dollars a month", "seconds until a job begins"), rows)
