"""Panels: the queue as a whole, above its tables. They show looks, and know nothing of the queue."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Sparkline, Static

from bucketq.live.look import Look
from bucketq.live.trend import Times, Trend
from bucketq.state import QueueState
from bucketq.top.palette import BAD, FAINT, GOOD, NOTICE
from bucketq.words import spell_rate, spell_size, spell_time


class Heading(Widget):
    """Where the queue is, and how it stands as a whole."""

    DEFAULT_CSS = "Heading { height: 2; }"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._look: Look | None = None

    def show(self, look: Look) -> None:
        """Show the counts of a look."""
        self._look = look
        self.refresh()

    def render(self) -> RenderableType:
        if self._look is None:
            return Text(self._url, "bold")
        facts = _facts(self._look)
        where = Text(self._url, "bold")
        where.truncate(max(0, self.size.width - len(facts) - 2), overflow="ellipsis", pad=True)
        return Group(where.append(f"  {facts}", f"not bold {FAINT}"), _counts(self._look.state))


class Trends(Horizontal):
    """Three lines: jobs done a second, how long they waited, how long they ran."""

    DEFAULT_CSS = """
    Trends { height: 3; }
    Trends > Vertical { width: 1fr; height: 3; margin-right: 2; }
    Trends > Vertical.last { margin-right: 0; }
    Trends Static { height: 1; }
    Trends Sparkline { height: 2; width: 1fr; }
    Trends Sparkline > .sparkline--min-color { color: $primary 60%; }
    """

    def compose(self) -> ComposeResult:
        for name in ("done", "wait", "run"):
            with Vertical(classes="last" if name == "run" else ""):
                yield Static("", id=f"{name}-figures")
                yield Sparkline(id=f"{name}-line")

    def show(self, trend: Trend) -> None:
        """Show how it went up to now."""
        width = self.query_one("#done-line").size.width
        done = [("done", spell_rate(trend.completed_per_s)), ("new", spell_rate(trend.enqueued_per_s))]
        self._show("done", done, trend.completed_line(width))
        self._show("wait", _spell_times("wait", trend.waits), trend.waits_line(width))
        self._show("run", _spell_times("run", trend.runs), trend.runs_line(width))

    def _show(self, name: str, figures: Sequence[tuple[str, str]], line: list[float]) -> None:
        text = Text(no_wrap=True, overflow="ellipsis")
        for label, value in figures:
            text.append(f"{label} ", FAINT).append(f"{value}  ", "bold")
        self.query_one(f"#{name}-figures", Static).update(text)
        self.query_one(f"#{name}-line", Sparkline).data = line


def _facts(look: Look) -> str:
    state = look.state
    broker = [f"led by {state.leader.address}"] if state.leader is not None else []
    size, took = spell_size(state.size), spell_time(look.took_s)
    return " · ".join([*broker, f"version {state.version:,}", size, f"read in {took}"])


def _counts(state: QueueState) -> Text:
    stats = state.stats
    text = Text().append("PAUSED   " if state.limits.is_paused else "", f"bold {NOTICE}")
    for name, count, style in (
        ("queued", stats.queued, ""),
        ("running", stats.in_progress, GOOD),
        ("scheduled", stats.scheduled, ""),
        ("blocked", stats.blocked, ""),
        ("dead", stats.dead, BAD),
        ("done", stats.completed_total, ""),
    ):
        text.append(f"{name} ", FAINT).append(f"{count:,}   ", f"bold {style if count else ''}")
    return text


def _spell_times(name: str, times: Times | None) -> list[tuple[str, str]]:
    if times is None:
        return [(name, "-")]
    return [(name, spell_time(times.median_s)), ("95%", spell_time(times.most_s))]
