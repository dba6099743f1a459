"""The page: findings as one HTML file, with its style and its plots inside."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bucketq.errors import ConfigurationError
from bucketq.pipeline.gold import WINDOWS
from bucketq.pipeline.quality import Check
from bucketq.pipeline.report.findings import Findings
from bucketq.pipeline.report.plots import COLOURS, Bar, Line, bars, count, heat_map, lines, seconds

_STYLE = files(__package__).joinpath("style.css").read_text()
_NONE = "-"
# Columns that stand on the right, digit below digit.
_NUMBERS = {"attempts", "jobs", "attained", "wanted", "finished", "a week before", "in all", "waited", "ran"}
# Of more days the weekdays are shown.
_DAYS_SHOWN_MAX = timedelta(days=31)
_WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def page(found: Findings, refresh_s: int | None = None) -> str:
    """The report as HTML; with `refresh_s` an open page looks for a newer one."""
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    body = [
        f"<h1>What the queue did</h1><p class='soft'><code>{escape(found.url)}</code></p>",
        f"<p>{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC."
        f" <span class='soft'>Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.</span></p>",
        _summary(found),
        _tiles(found),
        *_over_time(found),
        _by_hour(found),
        bars(
            "Jobs by entrypoint",
            [Bar(row.entrypoint, row.finished, f"{seconds(row.busy_s)} of work") for row in found.talkers],
        ),
        *_failures(found),
        *_targets(found),
        *_unusual(found),
        *_slowest(found),
        *_quality(found.checks),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"{refresh}<title>bucketq report</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def write_report(path: Path, text: str) -> None:
    """Replace a file as a whole: somebody may be reading it. Raises ConfigurationError."""
    hidden = path.with_name(f".{path.name}")
    try:
        # A crash left it, or it is a link to another file: "x" opens neither.
        hidden.unlink(missing_ok=True)
        with hidden.open("x", encoding="utf-8") as file:
            file.write(text)
        hidden.replace(path)
    except OSError as error:
        raise ConfigurationError(f"the report cannot be written to {path}: {error.strerror}") from error


def _summary(found: Findings) -> str:
    total = found.total
    said = [f"{total.finished:,} jobs were finished"]
    said.append(
        f"{total.failed:,} of them failed for good" if total.failed else "none of them failed for good"
    )
    if total.retried:
        said.append(f"{total.retried:,} needed more than one attempt")
    if found.slo:
        missed = [row.entrypoint for row in found.slo if not row.is_met]
        met = f"targets were missed by {', '.join(missed)}" if missed else "every target was met"
        said.append(f"on {found.slo[0].day} {met}")
    failed = [one.name for one in found.checks if one.passed is False]
    text = escape("; ".join(said)) + "."
    if failed:
        text += f" <b class='bad'>The data itself is in doubt: not {escape(', not '.join(failed))}.</b>"
    return f"<p>{text}</p>"


def _tiles(found: Findings) -> str:
    total = found.total
    waits = [row.wait_p95_s for row in found.hours if row.wait_p95_s is not None]
    runs = [row.run_p95_s for row in found.hours if row.run_p95_s is not None]
    hours = max((found.until - found.since) / timedelta(hours=1), 1)
    share = total.failed / total.finished if total.finished else 0.0
    tiles = [
        ("finished", f"{total.finished:,}", ""),
        ("an hour, on average", count(total.finished / hours), ""),
        ("failed", f"{share:.2%}", "bad" if share > 0.01 else "good"),
        ("retried", f"{total.retried / total.finished if total.finished else 0:.2%}", ""),
        ("wait, p95 of the worst hour", seconds(max(waits)) if waits else _NONE, ""),
        ("run, p95 of the worst hour", seconds(max(runs)) if runs else _NONE, ""),
        ("jobs running, on average", count(total.busy_s / (hours * 3600)), ""),
    ]
    cells = "".join(
        f"<div class='tile'><b class='{mood}'>{value}</b><span>{name}</span></div>"
        for name, value, mood in tiles
    )
    return f"<div class='tiles'>{cells}</div>"


def _over_time(found: Findings) -> list[str]:
    step = timedelta(seconds=WINDOWS[found.step])
    by_start = {row.start: row for row in found.steps}
    # Where nothing happened there is no row, but the time passed all the same.
    count_of_steps = int((max(by_start) - min(by_start)) / step) + 1
    moments = [min(by_start) + number * step for number in range(count_of_steps)]

    def line(name: str, column: str, missing: float | None) -> Line:
        rows = [by_start.get(moment) for moment in moments]
        return Line(
            name,
            [(at, missing if row is None else row[column]) for at, row in zip(moments, rows, strict=True)],
        )

    counts = [line(name, name, 0.0) for name in ("enqueued", "finished", "failed")]
    parts = [lines(f"Jobs, by the {found.step}", counts)]
    for what, title in (
        ("wait", "Waiting, from enqueueing to the first claim"),
        ("run", "Running, the last attempt"),
    ):
        levels = [line(f"p{level}", f"{what}_p{level}_s", None) for level in (50, 95, 99)]
        parts.append(lines(title, levels, seconds))
    parts.append(lines("Jobs running at the same time", [line("concurrency", "concurrency", 0.0)]))
    return parts


def _by_hour(found: Findings) -> str:
    is_long = found.until - found.since > _DAYS_SHOWN_MAX
    values: dict[tuple[str, str], float] = {}
    for row in found.hours:
        day = f"{row.start:%a}" if is_long else f"{row.start:%a %b %d}"
        cell = day, f"{row.start:%H}"
        values[cell] = values.get(cell, 0.0) + row.finished
    days = _WEEKDAYS if is_long else list(dict.fromkeys(day for day, _ in values))
    title = f"Jobs finished, by {'weekday' if is_long else 'day'} and hour (UTC)"
    return heat_map(title, days, [f"{hour:02}" for hour in range(24)], values)


def _failures(found: Findings) -> list[str]:
    drawn = [Bar(row["class"], row.attempts) for row in found.classes]
    if not drawn:
        return ["<h2>Failures</h2><p>No attempt failed.</p>"]
    rows = [
        (
            row["class"],
            row.entrypoint,
            f"{row.attempts:,}",
            f"{row.last_at:%m-%d %H:%M}",
            (row.example or "")[:160],
            row.example_id,
        )
        for row in found.errors
    ]
    heads = ("class", "entrypoint", "attempts", "last", "example", "job")
    return [
        "<h2>Failures</h2>",
        bars("Failed attempts by class of error", drawn, colour=COLOURS[2]),
        _table(heads, rows),
    ]


def _targets(found: Findings) -> list[str]:
    if not found.slo:
        return []
    rows = [
        (
            row.entrypoint,
            f"{row.jobs:,}",
            f"{row.attained:.2%}",
            f"{row.wanted:.2%}",
            f"{_share(row.within_wait)} in {seconds(row.wait_target_s)}",
            f"{_share(row.within_run)} in {seconds(row.run_target_s)}",
            "met" if row.is_met else "missed",
        )
        for row in found.slo
    ]
    heads = ("entrypoint", "jobs", "attained", "wanted", "waited", "ran", "")
    return [f"<h2>Targets, {found.slo[0].day}</h2>", _table(heads, rows)]


# Jobs that expired never ran, and may not have waited for a worker.
def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1%}"


def _seconds_if_any(value: float | None) -> str:
    return _NONE if value is None else seconds(value)


def _unusual(found: Findings) -> list[str]:
    names = {"finished": "jobs finished", "failed_share": "share of failures", "run_p95_s": "p95 of running"}
    rows = [
        (
            str(row.day),
            "all" if row.entrypoint is None else row.entrypoint,
            ", ".join(names[name] for name in row.unusual),
            f"{row.finished:,}",
            _NONE if row.week_over_week is None else f"{row.week_over_week:+.0%}",
        )
        for row in found.unusual
    ]
    heads = ("day", "entrypoint", "unusual", "finished", "a week before")
    return ["<h2>Unusual days</h2>", _table(heads, rows)] if rows else []


def _slowest(found: Findings) -> list[str]:
    rows = [
        (
            row.entrypoint,
            row.id,
            row.status,
            seconds(row.total_s),
            _seconds_if_any(row.wait_s),
            _seconds_if_any(row.run_s),
            row.attempts_total,
        )
        for row in found.slowest
    ]
    heads = ("entrypoint", "job", "ended as", "in all", "waited", "ran", "attempts")
    return ["<h2>Slowest jobs</h2>", _table(heads, rows)] if rows else []


def _quality(checks: Sequence[Check]) -> list[str]:
    marks = {True: "<b class='good'>yes</b>", False: "<b class='bad'>no</b>", None: "not checked"}
    rows = "".join(
        f"<tr><td>{escape(one.name)}</td><td>{marks[one.passed]}</td><td>{escape(one.found)}"
        f"{''.join(f'<br><code>{escape(example)}</code>' for example in one.examples)}</td></tr>"
        for one in checks
    )
    return ["<h2>The data behind this</h2>", f"<div class='wide'><table>{rows}</table></div>"] if rows else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    kinds = [" class=n" if head in _NUMBERS else "" for head in heads]

    def line(tag: str, cells: Sequence[Any]) -> str:
        drawn = [f"<{tag}{kind}>{escape(str(cell))}</{tag}>" for kind, cell in zip(kinds, cells, strict=True)]
        return f"<tr>{''.join(drawn)}</tr>"

    head, body = line("th", heads), "".join(line("td", row) for row in rows)
    return f"<div class='wide'><table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
