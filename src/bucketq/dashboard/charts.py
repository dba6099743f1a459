"""Charts: lines that grow. A browser gets the last minutes once, and then each new point alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from nicegui import ui

from bucketq.dashboard.frame import Frame
from bucketq.dashboard.history import POINTS_MAX, Point
from bucketq.dashboard.parts import panel

# Grey enough for both themes.
_INK, _LINE = "#8a94a6", "rgba(138,148,166,0.22)"


_LINES: dict[str, Any] = {"type": "line", "showSymbol": False, "lineStyle": {"width": 2}}
_BARS: dict[str, Any] = {"type": "bar", "stack": "all", "barMinWidth": 2, "barMaxWidth": 8}


class Line(NamedTuple):
    """One line of a chart: a field of the points, what it is called, and its colour."""

    field: str
    label: str
    colour: str


class LiveChart:
    """A chart of some fields of the history."""

    def __init__(
        self, frame: Frame, title: str, lines: Sequence[Line], *, unit: str = "", is_bars: bool = False
    ) -> None:
        self._frame = frame
        self._history = frame.watch.history
        self._fields = [Point._fields.index(line.field) for line in lines]
        points = self._history.points
        self._last_ms = points[-1].at_ms if points else 0
        with panel(title, "bq-chart-panel"):
            self._chart = ui.echart(
                _options(lines, [self._row(point) for point in points], unit, is_bars), renderer="canvas"
            ).classes("bq-chart")
            self._chart.props["role"] = "img"
            self._chart.props["aria-label"] = f"{title}: {', '.join(line.label for line in lines)}"
        frame.each_second(self._push)

    def _row(self, point: Point) -> list[Any]:
        return [point.at_ms, *(point[place] for place in self._fields)]

    def _push(self) -> None:
        newer = self._history.since(self._last_ms)
        if newer:
            self._last_ms = newer[-1].at_ms
            rows = [self._row(point) for point in newer]
            self._frame.run(f"bq.push({self._chart.id},{msgspec.json.encode(rows).decode()},{POINTS_MAX})")


def _options(lines: Sequence[Line], rows: list[list[Any]], unit: str, is_bars: bool) -> dict[str, Any]:
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "textStyle": {"fontFamily": "inherit", "color": _INK},
        "color": [line.colour for line in lines],
        "grid": {"left": 8, "right": 30, "top": 34, "bottom": 4, "containLabel": True},
        "legend": {
            "top": 0,
            "left": 0,
            "itemWidth": 12,
            "itemHeight": 8,
            "icon": "roundRect",
            "textStyle": {"color": _INK},
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            ":valueFormatter": f"(value) => bq.spell(value, {unit!r})",
        },
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": _LINE}},
            "axisLabel": {"color": _INK, "hideOverlap": True, "formatter": "{HH}:{mm}:{ss}"},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "splitNumber": 3,
            "minInterval": 0 if unit == "s" else 1,
            "axisLabel": {"color": _INK, ":formatter": f"(value) => bq.spell(value, {unit!r})"},
            "splitLine": {"lineStyle": {"color": _LINE}},
        },
        "dataset": {"dimensions": ["at", *(line.field for line in lines)], "source": rows},
        "series": [
            {
                "name": line.label,
                "encode": {"x": "at", "y": line.field},
                "emphasis": {"disabled": True},
                **(_BARS if is_bars else _LINES),
            }
            for line in lines
        ],
    }
