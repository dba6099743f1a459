"""Plots as SVG text: lines over time, bars, and a heat map. Every mark tells its value on hover."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import NamedTuple

COLOURS = ("#2563eb", "#16a34a", "#dc2626", "#d97706", "#7c3aed", "#0891b2")
_WIDTH, _HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 30
_TICKS = 4
_DAY = timedelta(days=1)


class Line(NamedTuple):
    """A line: its name, and its value at each moment; None where there is none."""

    name: str
    points: Sequence[tuple[datetime, float | None]]


class Bar(NamedTuple):
    """A bar: its name, its length, and what is said about it."""

    name: str
    value: float
    note: str = ""


Spell = Callable[[float], str]


def count(value: float) -> str:
    """A number, short.

    >>> count(1234567), count(12.0), count(0.25)
    ('1.23M', '12', '0.25')
    """
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """A length of time, short.

    >>> seconds(0.0123), seconds(1.5), seconds(90), seconds(7200)
    ('12.3 ms', '1.5 s', '1.5 min', '2 h')
    """
    for limit, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"


def lines(title: str, drawn: Sequence[Line], spell: Spell = count) -> str:
    """Lines over time, with a legend."""
    moments = [moment for line in drawn for moment, _ in line.points]
    values = [value for line in drawn for _, value in line.points if value is not None]
    if not values:
        return _empty(title)
    begin, end = min(moments), max(moments)
    span_s = max((end - begin).total_seconds(), 1.0)
    unit = next((unit for unit in (86400, 3600, 60) if spell is seconds and max(values) >= unit), 1)
    top = _nice(max(values) / unit) * unit

    def x(moment: datetime) -> float:
        return _LEFT + (moment - begin).total_seconds() / span_s * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1 - value / top) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_grid(top, y, spell), *_time_axis(begin, end, x)]
    for number, line in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        for run in _runs(line.points):
            path = " ".join(f"{x(moment):.1f},{y(value):.1f}" for moment, value in run)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            # Of many points only the line is drawn, but each can still be pointed at.
            look = 'r="2"' if len(run) < 80 else 'r="5" opacity="0"'
            parts += [
                f'<circle cx="{x(moment):.1f}" cy="{y(value):.1f}" {look} fill="{colour}">'
                f"<title>{escape(line.name)}, {moment:%Y-%m-%d %H:%M}: {spell(value)}</title></circle>"
                for moment, value in run
            ]
    legend = "".join(
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(line.name)}</span>'
        for number, line in enumerate(drawn)
    )
    return _figure(title, _svg(_HEIGHT, parts), f'<div class="legend">{legend}</div>')


def bars(title: str, drawn: Sequence[Bar], colour: str = COLOURS[0]) -> str:
    """Horizontal bars, one below the other."""
    if not drawn:
        return _empty(title)
    row, left = 26, 190
    most = max(bar.value for bar in drawn) or 1.0
    parts = []
    for number, bar in enumerate(drawn):
        y, width = number * row + 4, max(1.0, bar.value / most * (_WIDTH - left - 130))
        name = bar.name if len(bar.name) <= 26 else bar.name[:25] + "…"
        parts.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="18" rx="2" fill="{colour}">'
            f"<title>{escape(bar.name)}: {count(bar.value)} {escape(bar.note)}</title></rect>"
            f'<text x="{left + width + 6:.1f}" y="{y + 14}">{count(bar.value)} '
            f'<tspan class="soft">{escape(bar.note)}</tspan></text>'
        )
    return _figure(title, _svg(len(drawn) * row + 8, parts))


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: dict[tuple[str, str], float]
) -> str:
    """Cells whose colour tells their value: rows from top to bottom, columns from left to right."""
    if not values:
        return _empty(title)
    left, height = 84, 18
    width = (_WIDTH - left - _RIGHT) / len(columns)
    most = max(values.values()) or 1.0
    parts = []
    for number, row in enumerate(rows):
        parts.append(
            f'<text x="{left - 8}" y="{number * height + 13}" text-anchor="end">{escape(row)}</text>'
        )
        for place, column in enumerate(columns):
            value = values.get((row, column), 0.0)
            shade = (
                f"rgba(37,99,235,{0.06 + 0.94 * math.sqrt(value / most):.2f})" if value else "var(--faint)"
            )
            parts.append(
                f'<rect x="{left + place * width:.1f}" y="{number * height}" width="{width - 1.5:.1f}"'
                f' height="{height - 1.5}" rx="2" fill="{shade}">'
                f"<title>{escape(row)} {escape(column)}: {count(value)}</title></rect>"
            )
    bottom = len(rows) * height + 14
    parts += [
        f'<text x="{left + (place + 0.5) * width:.1f}" y="{bottom}" text-anchor="middle">'
        f"{escape(column)}</text>"
        for place, column in enumerate(columns)
        if place % max(1, len(columns) // 12) == 0
    ]
    return _figure(title, _svg(bottom + 6, parts))


def _runs(points: Sequence[tuple[datetime, float | None]]) -> list[list[tuple[datetime, float]]]:
    """The stretches without a gap."""
    runs: list[list[tuple[datetime, float]]] = [[]]
    for moment, value in points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((moment, value))
    return [run for run in runs if run]


def _grid(top: float, y: Callable[[float], float], spell: Spell) -> str:
    marks = [top * tick / _TICKS for tick in range(_TICKS + 1)]
    return "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" class="grid"/>'
        f'<text x="{_LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{spell(mark)}</text>'
        for mark in marks
    )


def _time_axis(begin: datetime, end: datetime, x: Callable[[datetime], float]) -> list[str]:
    ticks = 6
    form = "%H:%M" if end - begin <= _DAY else "%b %d" if end - begin > 5 * _DAY else "%b %d %H:%M"
    marks = [begin + (end - begin) * tick / ticks for tick in range(ticks + 1)] if end > begin else [begin]
    anchors = ["start", *["middle"] * (len(marks) - 2), "end"] if len(marks) > 1 else ["start"]
    return [
        f'<text x="{x(mark):.1f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{mark:{form}}</text>'
        for mark, anchor in zip(marks, anchors, strict=True)
    ]


def _nice(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value * 0.9999)


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _figure(title: str, drawing: str, below: str = "") -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{drawing}{below}</figure>"


def _empty(title: str) -> str:
    return _figure(title, '<p class="soft">Nothing to show.</p>')
