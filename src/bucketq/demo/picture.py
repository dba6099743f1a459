"""Picture: the demo's live display, drawn by rich to fit a terminal of 80 by 24."""

from collections import Counter, deque
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bucketq.demo.story import PRIORITIES, Story

NEWS_SHOWN = 6


class Picture:
    """Depth by entrypoint, the workers, the latest news; drawn in place."""

    interval_s = 0.2

    def __init__(self) -> None:
        self._live = Live(auto_refresh=False)
        self._completed: deque[tuple[float, int]] = deque(maxlen=10)

    def running(self) -> AbstractContextManager[Any]:
        """Draw in place; leave the last picture on the screen."""
        return self._live

    def show(self, story: Story) -> None:
        """Draw the picture anew."""
        self._completed.append((story.elapsed_s, story.tally.completed))
        parts = (self._figures(story), "", _depths(story), "", _workers(story), "", _news(story))
        self._live.update(Group(*parts), refresh=True)

    def _figures(self, story: Story) -> str:
        (since_s, completed_then), (now_s, completed) = self._completed[0], self._completed[-1]
        rate = (completed - completed_then) / max(now_s - since_s, 0.1)
        return (
            f"[bold]{now_s:4.1f}[/] s   [bold]{completed}[/] completed, {rate:.0f}/s   queue.json: version"
            f" [bold]{story.state.version}[/], {story.commits} commits,"
            f" {story.size_bytes() / 1000:.1f} kB"
        )


def _depths(story: Story) -> Table:
    running = Counter(job.entrypoint for job in story.state.in_progress_jobs())
    table = _table("entrypoint", "priority", "running", "waiting", "each # is four jobs")
    for entrypoint, priority in PRIORITIES.items():
        depth = story.state.waiting(entrypoint)
        bar = Text("#" * min(-(-depth // 4), 32), style="cyan")
        table.add_row(entrypoint, str(priority), str(running[entrypoint]), str(depth), bar)
    return table


def _workers(story: Story) -> Table:
    table = _table("worker", "done", "busy with")
    for worker in story.workers:
        style = "red" if worker.has_crashed else None
        table.add_row(worker.name, str(worker.done), worker.doing, style=style)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="dim")
    table.add_column(first)
    for number, name in enumerate(others, 1):
        table.add_column(name, justify="left" if number == len(others) else "right")
    return table


def _news(story: Story) -> Text:
    newest = story.news[-NEWS_SHOWN:]
    return Text("\n".join(newest + [""] * (NEWS_SHOWN - len(newest))))
