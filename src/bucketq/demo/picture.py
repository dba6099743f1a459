"""Picture: the tour's live display, drawn by rich to fit a terminal of 80 by 24."""

from collections import Counter, deque
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bucketq.demo.cast import Broker
from bucketq.demo.jobs import app
from bucketq.demo.news import called
from bucketq.demo.process import Process
from bucketq.demo.tour import Tour
from bucketq.job import Job
from bucketq.words import spell_rate, spell_size

NEWS_SHOWN = 5
_JOBS_A_MARK = 4


class Picture:
    """Brokers, workers, depth by entrypoint, and the latest news; drawn in place."""

    def __init__(self) -> None:
        self._live = Live(auto_refresh=False)
        # Of the last seconds.
        self._completed: deque[tuple[float, int]] = deque(maxlen=15)

    def running(self) -> AbstractContextManager[Any]:
        """Draw in place; leave the last picture on the screen."""
        return self._live

    def show(self, tour: Tour) -> None:
        """Draw the picture anew."""
        self._completed.append((tour.news.elapsed_s, tour.completed))
        parts = (
            _places(tour),
            "",
            _people(tour),
            "",
            _depths(tour),
            "",
            self._figures(tour),
            "",
            _news(tour),
        )
        self._live.update(Group(*parts), refresh=True)

    def _figures(self, tour: Tour) -> str:
        (since_s, completed_then), (now_s, completed) = self._completed[0], self._completed[-1]
        rate = (completed - completed_then) / max(now_s - since_s, 0.1)
        return (
            f"[bold]{now_s:.0f}[/] s   [bold]{completed}[/] of {tour.enqueued} completed,"
            f" {spell_rate(rate)}   queue.json: {tour.commits} commits, {spell_size(tour.size_bytes())}"
        )


def _places(tour: Tour) -> Text:
    dashboard = f"dashboard  {tour.dashboard}" if tour.dashboard else "the brokers and the workers start"
    return Text(f"{dashboard}\nqueue      {tour.path}", no_wrap=True, overflow="ellipsis")


def _people(tour: Tour) -> Table:
    table = _table("process", "pid", "what it does")
    for broker in tour.cast.brokers:
        _add(table, broker, _broker_does(tour, broker))
    for worker in tour.cast.workers:
        _add(table, worker, ", ".join(map(_progress, tour.jobs_of(worker))) or _idle(worker))
    return table


def _add(table: Table, process: Process, doing: str) -> None:
    style = "red" if process.was_killed else None
    table.add_row(process.name, str(process.pid), "KILLED" if process.was_killed else doing, style=style)


def _broker_does(tour: Tour, broker: Broker) -> str:
    leader = tour.state.leader
    if tour.cast.leader(leader) is broker and leader:
        return f"LEADS, epoch {leader.epoch}, at {broker.http}"
    return f"waits for its turn, at {broker.http}" if broker.http else "starts"


def _idle(worker: Process) -> str:
    return "waits for jobs" if worker.exit_code is None else "has left"


def _progress(job: Job) -> str:
    return called(job) if job.progress is None else f"{called(job)} {job.progress:.0%}"


def _depths(tour: Tour) -> Table:
    running = Counter(job.entrypoint for job in tour.state.in_progress_jobs())
    table = _table("entrypoint", "running", "waiting", f"each # is {_JOBS_A_MARK} jobs")
    for entrypoint in app.handlers:
        depth = tour.state.waiting(entrypoint)
        bar = Text("#" * -(-depth // _JOBS_A_MARK), style="cyan")
        table.add_row(entrypoint, str(running[entrypoint]), str(depth), bar)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first)
    for number, name in enumerate(others, 1):
        is_last = number == len(others)
        table.add_column(
            name,
            justify="left" if is_last else "right",
            no_wrap=True,
            overflow="ellipsis",
            ratio=is_last or None,
        )
    return table


def _news(tour: Tour) -> Text:
    newest = tour.news.lines[-NEWS_SHOWN:]
    return Text("\n".join(newest + [""] * (NEWS_SHOWN - len(newest))), no_wrap=True, overflow="ellipsis")
