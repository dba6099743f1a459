"""The report: tables on the terminal, and the same, with plots, between the markers of the docs page."""

import re
from collections.abc import Callable, Sequence
from datetime import date

from rich.console import Console
from rich.table import Table

from bench.peers.plots import Bar, draw_bars, spell
from bench.peers.results import Results
from bench.peers.roster import ROSTER, Entry
from bench.peers.speed import Speed
from bench.peers.toll import Toll
from bench.side import ROOT

PAGE = ROOT / "docs" / "comparison.md"
PICTURES = ROOT / "docs" / "pictures" / "peers"
# Wide enough for every table: in a pipe there is no terminal to ask.
_WIDTH = 130

Rows = list[list[str]]

_PLOTS: dict[str, tuple[str, Callable[[Speed], float]]] = {
    "enqueue-one": ("Enqueued a second, one caller, one at a time", lambda speed: speed.one_per_s),
    "enqueue-many": ("Enqueued a second, in the library's way for many", lambda speed: speed.many_per_s),
    "drain": ("Drained a second by one worker, 20 jobs at a time", lambda speed: speed.drained_per_s),
    "latency": ("Milliseconds from enqueue to start, median", lambda speed: speed.p50_ms),
    "cpu": ("CPU milliseconds of a job, of all processes", lambda speed: speed.cpu_ms),
}


def print_results(results: Results) -> None:
    """Print all tables."""
    console = Console(width=None if Console().is_terminal else _WIDTH, highlight=False)
    for title, rows in (
        ("Speed", _speeds(results)),
        ("Workers that are killed", _worker_kills(results)),
        ("Servers that are killed", _server_kills(results)),
    ):
        table = Table(title=title, title_justify="left")
        for number, name in enumerate(rows[0]):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    for key, reason in results.failures.items():
        console.print(f"{key}: {reason}", markup=False)


def write_docs(results: Results) -> None:
    """Write the tables into the page, and the plots beside it."""
    text = PAGE.read_text()
    parts = {
        "about": _about(results),
        "speeds": _as_markdown(_speeds(results)),
        "workers": _as_markdown(_worker_kills(results)),
        "servers": _as_markdown(_server_kills(results)),
        "acks": _as_markdown([["", "when `enqueue` has returned"], *([one.name, one.ack] for one in ROSTER)]),
    }
    for name, content in parts.items():
        text = replace_part(text, name, content)
    PAGE.write_text(text)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, (title, value) in _PLOTS.items():
        bars = [
            Bar(entry.name, value(results.speeds[entry.key]), entry.is_ours)
            for entry in ROSTER
            if entry.key in results.speeds
        ]
        is_less_better = name in ("latency", "cpu")
        more = "logarithmic, less is better" if is_less_better else "logarithmic"
        (PICTURES / f"{name}.svg").write_text(draw_bars(f"{title} ({more})", bars, is_less_better))


def replace_part(text: str, name: str, content: str) -> str:
    """What stands between the markers of this name gives way to something new."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    found = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    assert found.search(text), f"{PAGE.name} has no part {begin}"
    return found.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def _about(results: Results) -> str:
    about = results.about
    day = date.fromisoformat(about["measured_at"][:10])
    named = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"Measured on {day}, in one run: {about['machine']}, Python {about['python']}, load average"
        f" {about['load_average']:.1f} at the start. {named}."
    )


def _speeds(results: Results) -> Rows:
    rows = [["", "enqueue/s", "many/s", "its way", "drain/s", "p50 ms", "p99 ms", "CPU ms/job"]]
    for entry, speed in _of(results.speeds):
        figures = [speed.drained_per_s, speed.p50_ms, speed.p99_ms, speed.cpu_ms]
        row = [entry.name, spell(speed.one_per_s), spell(speed.many_per_s), entry.many, *map(spell, figures)]
        rows.append(row)
    return rows


def _worker_kills(results: Results) -> Rows:
    rows = [
        ["", "kills", "jobs", "interrupted", "lost", "late", "done twice", "back after, median", "at most"]
    ]
    for entry, toll in _of(results.worker_kills):
        counts = [toll.kills, toll.jobs, toll.interrupted, toll.lost, toll.late, toll.doubled]
        waits = [toll.recovered_median_s, toll.recovered_max_s]
        row = [entry.name, *map(str, counts), *("-" if s is None else f"{s:.1f} s" for s in waits)]
        rows.append(row)
    return rows


def _server_kills(results: Results) -> Rows:
    rows = [["", "killed", "kills", "acknowledged", "lost", "done twice"]]
    for entry, toll in _of(results.server_kills):
        counts = [toll.kills, toll.jobs, toll.lost, toll.doubled]
        rows.append([entry.name, entry.victim, *map(str, counts)])
    return rows


def _of(found: dict[str, Speed] | dict[str, Toll]) -> Sequence[tuple[Entry, Speed | Toll]]:
    return [(entry, found[entry.key]) for entry in ROSTER if entry.key in found]


def _as_markdown(rows: Rows) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
