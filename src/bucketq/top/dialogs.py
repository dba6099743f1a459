"""Dialogs: a question before what cannot be undone, all about one job, and the keys."""

from collections.abc import Iterator
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from bucketq.facts import facts
from bucketq.job import Job
from bucketq.live.words import spell_payload, spell_status
from bucketq.timeline import timeline
from bucketq.top.palette import BAD
from bucketq.words import printable, spell_size

_HELP = (
    ("tab", "go to the next table"),
    ("enter", "all about a job; of an entrypoint or a worker, its jobs"),
    ("/", "only jobs with a text: name, id, worker, error, payload"),
    ("s", "only jobs of one status, then of the next one"),
    ("escape", "all jobs again"),
    ("r", "retry a dead job (asks first): a new one takes its place"),
    ("c", "cancel a job that waits or runs (asks first)"),
    ("p", "pause the entrypoint (asks first), or let it go on"),
    ("P", "pause the whole queue (asks first), or let it go on"),
    ("q", "quit; the queue goes on"),
    ("", ""),
    ("done, new", "jobs completed and enqueued a second"),
    ("wait", "of jobs that began lately: half waited so long at most"),
    ("run", "of jobs that ended lately: half ran so long at most"),
    ("95%", "and 95 of 100 so long at most"),
    ("oldest", "the longest wait of a job, about"),
    ("heard", "since the worker's last heartbeat"),
)


class Question(ModalScreen[bool]):
    """Asks once; anything but y means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,enter,q", "dismiss(False)", "No"),
    ]
    DEFAULT_CSS = """
    Question { align: center middle; }
    Question > Static { width: 64; max-width: 90%; height: auto; padding: 1 2; border: round $warning; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yes_or_no = Text.assemble(("y", "bold"), " yes    ", ("n", "bold"), " no", style="dim")
        yield Static(Group(Text(printable(self._question)), Text(), yes_or_no))


class Sheet(ModalScreen[None]):
    """Something to read, over the tables."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark", "dismiss", "Close"),
    ]
    DEFAULT_CSS = """
    Sheet { align: center middle; }
    Sheet > VerticalScroll {
        width: 100; max-width: 95%; height: auto; max-height: 90%;
        padding: 0 2; border: round $primary; background: $background;
        scrollbar-size-vertical: 1;
    }
    Sheet Static { height: auto; }
    """

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._title = title
        self._content = content

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = Text(printable(self._title))
            scroll.border_subtitle = "escape"
            yield Static(self._content)


def help_sheet() -> Sheet:
    """Which keys there are, and what the figures mean."""
    return Sheet("Help", _pairs(_HELP))


def job_sheet(job: Job, payload: bytes) -> Sheet:
    """All about a job: what it is, what happened to it, its errors and its payload."""
    parts: list[RenderableType] = [
        Text(printable(f"{job.entrypoint}  {spell_status(job)}"), "bold"),
        Padding(_pairs(facts(job)), (0, 0, 1, 0)),
        Text("Timeline, UTC", "bold"),
        Padding(_pairs((f"{when:%Y-%m-%d %H:%M:%S}", what) for when, what in timeline(job)), (0, 0, 1, 0)),
    ]
    for number, attempt in enumerate(job.history, 1):
        # The timeline has errors of one line.
        if trouble := attempt.trace or ("\n" in (attempt.error or "") and attempt.error):
            parts += [Text(f"Attempt {number}", "bold"), Padding(Text(printable(trouble), BAD), (0, 0, 1, 0))]
    parts += [Text(f"Payload, {spell_size(len(payload))}", "bold"), Text(printable(spell_payload(payload)))]
    return Sheet(f"Job {job.id}", Group(*parts))


def _pairs(pairs: "Iterator[tuple[str, str]] | tuple[tuple[str, str], ...]") -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in pairs:
        grid.add_row(label, Text(printable(value)))
    return grid
