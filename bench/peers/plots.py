"""Plots for the docs: bars on a logarithmic scale, as SVG that needs nothing else."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

OURS, THEIRS = "#2563eb", "#94a3b8"
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 860, 250, 90, 22, 46


class Bar(NamedTuple):
    """A bar: its name, its value, and whether it is one of ours."""

    name: str
    value: float
    is_ours: bool


def draw_bars(title: str, bars: Sequence[Bar], is_less_better: bool = False) -> str:
    """One bar below the other, the best first, on a scale where each line stands for ten times the last."""
    drawn = sorted(
        (bar for bar in bars if bar.value > 0), key=lambda bar: bar.value, reverse=not is_less_better
    )
    lowest = math.floor(math.log10(min((bar.value for bar in drawn), default=1)))
    highest = max(math.ceil(math.log10(max((bar.value for bar in drawn), default=1))), lowest + 1)
    bottom = _TOP + _ROW * len(drawn)

    def x(value: float) -> float:
        share = (math.log10(value) - lowest) / (highest - lowest)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * max(share, 0.005)

    parts = [
        f'<rect width="{_WIDTH}" height="{bottom + 12}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for power in range(lowest, highest + 1):
        at = x(10.0**power) if power > lowest else _LEFT
        parts += [
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 4}" y2="{bottom}" stroke="#e2e8f0"/>',
            f'<text x="{at:.1f}" y="{_TOP - 8}" text-anchor="middle" fill="#64748b">'
            f"{spell(10.0**power)}</text>",
        ]
    for number, bar in enumerate(drawn):
        y = _TOP + _ROW * number
        colour = OURS if bar.is_ours else THEIRS
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{_LEFT}" y="{y + 3}" width="{x(bar.value) - _LEFT:.1f}" height="{_ROW - 7}"'
            f' fill="{colour}"/>',
            f'<text x="{x(bar.value) + 6:.1f}" y="{y + 15}">{spell(bar.value)}</text>',
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 12}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="#0f172a"><title>{escape(title)}</title>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def spell(value: float) -> str:
    """A number as people write it.

    >>> spell(12345.6), spell(12.34), spell(0.5)
    ('12,346', '12', '0.5')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
