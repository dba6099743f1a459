"""The report: tables for people, JSON for programs."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

import bucketq
from bench import bill
from bench.bound import Closeness
from bench.contest import Figure
from bench.finding import Finding
from bench.requests import Count
from bench.suite import Series

# Wide enough for every table: in a pipe there is no terminal to ask.
_WIDTH = 110


class Report:
    """Prints each part as it is measured and keeps it for the JSON file."""

    def __init__(self) -> None:
        self._console = Console(width=None if Console().is_terminal else _WIDTH, highlight=False)
        # On stderr, so that a report in a pipe or a file holds the tables only.
        self._progress = Console(stderr=True, highlight=False)
        self.figures: dict[str, object] = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            "load_average": os.getloadavg(),
            "bucketq": bucketq.__version__,
            "python": platform.python_version(),
        }

    def say(self, line: str) -> None:
        """Show what is going on: on one line of a terminal, on many in a pipe."""
        if self._progress.is_terminal:
            # Nothing animated: a thread that draws would compete with what is measured.
            self._progress.print(f"\r\x1b[K{line} …", end="", markup=False)
        else:
            self._progress.print(line, markup=False)

    def note(self, text: str) -> None:
        """Print a remark between the tables."""
        self._clear_line()
        self._console.print(text, markup=False)

    def add_series(self, series: Series, figures: list[Figure]) -> None:
        """A table that compares bucketq with jqueue."""
        on_file = series.storage == "file"
        table = _table(series.title, "operations a second", "bucketq", "jqueue", "ratio", "target", "met")
        table.add_column("bare fsync" if on_file else "one piece", justify="right")
        table.add_column("its ratio", justify="right")
        for figure in figures:
            row = [
                figure.aim.workload.name,
                f"{figure.bucketq_per_s:,.0f}",
                _shown(figure.jqueue_per_s, "{:,.0f}"),
                _shown(figure.ratio, "{:,.1f}x"),
                _shown(figure.aim.target, "{:,.0f}x"),
                _met(figure.is_met),
                _shown(figure.floor_per_s or figure.one_piece_per_s, "{:,.0f}"),
                _shown(figure.ratio_at_floor or figure.ratio_in_one_piece, "{:,.1f}x"),
            ]
            table.add_row(*row)
        self._print(table)
        self.figures[series.key] = [_figure_as_dict(figure) for figure in figures]

    def add_bound(self, found: Sequence[Closeness]) -> None:
        """A table of group commit against its bound."""
        title = "Group commit against its bound: callers / round-trip"
        table = _table(title, "callers", "round-trip", "enqueued/s", "bound/s", "reached", "target", "met")
        for one in found:
            table.add_row(
                f"{one.callers:,}",
                f"{one.round_trip_s * 1000:.1f} ms",
                f"{one.enqueued_per_s:,.0f}",
                f"{one.bound_per_s:,.0f}",
                f"{one.share:.1%}",
                f"{one.target:.0%}",
                _met(one.is_met),
            )
        self._print(table)
        self.figures["bound"] = [
            asdict(one) | {"bound_per_s": one.bound_per_s, "share": one.share, "is_met": one.is_met}
            for one in found
        ]

    def add_requests(self, counts: Sequence[Count]) -> None:
        """A table of storage requests."""
        title = "Storage requests in steady state"
        table = _table(title, "case", "commits", "writes", "reads", "conditional reads", "exact")
        for one in counts:
            found = (one.found.writes, one.found.reads, one.found.conditional_reads)
            table.add_row(one.name, str(one.commits), *map(str, found), _met(one.is_met))
        self._print(table)
        self.figures["requests"] = [one.as_dict() for one in counts]

    def add_findings(self, key: str, title: str, findings: Sequence[Finding]) -> None:
        """A table of figures in two situations."""
        table = _table(title, "figure", "before", "after", "ratio", "wanted", "met")
        for one in findings:
            wanted = f"at most {one.most}" if one.most else f"at least {one.least}" if one.least else ""
            row = [one.name, f"{one.shallow:,.4g}", f"{one.deep:,.4g}", f"{one.ratio:.2f}", wanted]
            table.add_row(*row, _met(one.is_met))
        self._print(table)
        self.figures[key] = [asdict(one) | {"ratio": one.ratio, "is_met": one.is_met} for one in findings]

    def add_tables(self, key: str, tables: Sequence[bill.Table]) -> None:
        """Tables as they stand in a page."""
        for one in tables:
            table = _table(one.name, *one.head)
            for row in one.rows:
                table.add_row(*row)
            self._print(table)
        self.figures[key] = {one.name: one.rows for one in tables}

    def add_floor(self, by_size: dict[int, float]) -> None:
        """A table of what a durable write costs by itself."""
        title = "One bare durable write: write, fsync, rename, fsync of the folder"
        table = _table(title, "file size", "milliseconds", "a second")
        for size, took_s in by_size.items():
            table.add_row(f"{size:,} B", f"{took_s * 1000:.2f}", f"{1 / took_s:,.0f}")
        self._print(table)
        self.figures["floor_s_by_bytes"] = by_size

    def _print(self, table: Table) -> None:
        self._clear_line()
        self._console.print(table)

    def _clear_line(self) -> None:
        if self._progress.is_terminal:
            self._progress.print("\r\x1b[K", end="")


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _met(is_met: bool | None) -> str:
    return {None: "", True: "yes", False: "[red]no[/]"}[is_met]


def _figure_as_dict(figure: Figure) -> dict[str, object]:
    return asdict(figure) | {
        "bucketq_per_s": figure.bucketq_per_s,
        "jqueue_per_s": figure.jqueue_per_s,
        "floor_per_s": figure.floor_per_s,
        "one_piece_per_s": figure.one_piece_per_s,
        "ratio": figure.ratio,
        "ratio_at_floor": figure.ratio_at_floor,
        "ratio_in_one_piece": figure.ratio_in_one_piece,
        "is_met": figure.is_met,
    }
