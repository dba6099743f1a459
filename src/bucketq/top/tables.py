"""Tables: entrypoints, workers and jobs, each drawn anew after a look.

Numbers come first and names last, as in `top` itself: what is too long is cut at the edge.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from bucketq.job import Job, JobStatus
from bucketq.live.look import Look
from bucketq.live.rows import EntrypointRow, WorkerRow
from bucketq.live.words import short_id, spell_about, spell_span, spell_status
from bucketq.top.palette import BAD, FAINT, GOOD, NOTICE
from bucketq.top.words import spell_progress
from bucketq.words import printable, spell_count, spell_time

# What nobody scrolls through is not worth drawing anew each second; a filter finds the rest.
_JOBS_MAX = 100
_STYLES = {JobStatus.IN_PROGRESS: GOOD, JobStatus.DEAD: BAD}


class Column(NamedTuple):
    """A column with its head. Numbers stand at its right; without a width it takes what is left."""

    head: str
    width: int | None = None
    is_number: bool = False

    def cell(self, text: str, style: str = "") -> Text:
        """What stands in a row of it."""
        cell = Text(printable(text).replace("\n", " "), style, no_wrap=True, end="")
        if self.width is not None:
            cell.truncate(self.width, overflow="ellipsis")
            cell.align("right" if self.is_number else "left", self.width)
        return cell


# A row has a key, which stays the same, and for each column a text and its style.
Row = tuple[str, Sequence[tuple[str, str]]]


class Table(DataTable[Text]):
    """A table whose cursor stays on the row where it was, wherever that has gone."""

    COLUMNS: ClassVar[Sequence[Column]] = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
    ]
    DEFAULT_CSS = """
    Table {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        background: $background;
        border-top: solid $foreground 20%;
        border-title-color: $foreground 60%;
    }
    Table:focus {
        background-tint: $background 0%;
        border-top: solid $primary;
        border-title-color: $primary;
        border-title-style: bold;
    }
    Table > .datatable--header, Table:focus > .datatable--header {
        background: $background;
        background-tint: $background 0%;
        color: $foreground 50%;
        text-style: none;
    }
    Table > .datatable--cursor { background: $background; color: $foreground; text-style: none; }
    Table:focus > .datatable--cursor { background: $primary 30%; color: $foreground; text-style: bold; }
    """

    def __init__(self, title: str) -> None:
        super().__init__(
            cursor_type="row",
            cursor_foreground_priority="renderable",
            cell_padding=0,
            show_row_labels=False,
        )
        self.border_title = title
        for column in self.COLUMNS:
            # One more keeps it from the next one.
            width = None if column.width is None else column.width + 1
            self.add_column(column.cell(column.head), width=width, key=column.head)

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor."""
        if not self.is_valid_row_index(self.cursor_row):
            return None
        return self.ordered_rows[self.cursor_row].key.value

    def fill(self, rows: Sequence[Row]) -> None:
        """Let these be the rows."""
        keys = [key for key, _ in rows]
        drawn = [
            [column.cell(*cell) for column, cell in zip(self.COLUMNS, cells, strict=True)]
            for _, cells in rows
        ]
        if keys == [row.key.value for row in self.ordered_rows]:
            self._update(keys, drawn)
            return
        chosen, at, scroll_y = self.chosen, self.cursor_row, self.scroll_y
        self.clear()
        for key, cells in zip(keys, drawn, strict=True):
            self.add_row(*cells, key=key)
        self.move_cursor(row=keys.index(chosen) if chosen in keys else at, scroll=False)
        self.scroll_to(y=scroll_y, animate=False)

    def _update(self, keys: Sequence[str], drawn: Sequence[Sequence[Text]]) -> None:
        for key, cells in zip(keys, drawn, strict=True):
            for column, before, cell in zip(self.COLUMNS, self.get_row(key), cells, strict=True):
                if before != cell:
                    self.update_cell(key, column.head, cell, update_width=column.width is None)


class EntrypointTable(Table):
    """The entrypoints."""

    COLUMNS = (
        Column("queued", 6, is_number=True),
        Column("running", 7, is_number=True),
        Column("dead", 5, is_number=True),
        Column("oldest", 6, is_number=True),
        Column("entrypoint"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Jobs", key_display="⏎")]

    def show(self, rows: Sequence[EntrypointRow]) -> None:
        """Show them."""
        self.fill([(row.name, _entrypoint_cells(row)) for row in rows])


class WorkerTable(Table):
    """The workers that hold jobs."""

    COLUMNS = (
        Column("jobs", 5, is_number=True),
        Column("heard", 6, is_number=True),
        Column("worker"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Jobs", key_display="⏎")]

    def show(self, rows: Sequence[WorkerRow]) -> None:
        """Show them."""
        self.fill(
            [
                (row.name, ((spell_count(row.jobs), GOOD), (spell_time(row.silent_s), ""), (row.name, "")))
                for row in rows
            ]
        )


class JobTable(Table):
    """The jobs that a filter lets through."""

    COLUMNS = (
        Column("status", 10),
        Column("for", 8, is_number=True),
        Column("try", 4, is_number=True),
        Column("progress", 9),
        Column("job", 8),
        Column("entrypoint", 14),
        Column("about"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Inspect", key_display="⏎")]

    def show(self, look: Look, jobs: Sequence[Job]) -> None:
        """Show the first ones of them."""
        self.fill([(job.id, _job_cells(job, look)) for job in jobs[:_JOBS_MAX]])


def _entrypoint_cells(row: EntrypointRow) -> list[tuple[str, str]]:
    return [
        (spell_count(row.queued), "" if row.queued else FAINT),
        (spell_count(row.running), GOOD if row.running else FAINT),
        (spell_count(row.dead), BAD if row.dead else FAINT),
        (("?" if row.queued else "-") if row.oldest_wait_s is None else spell_time(row.oldest_wait_s), ""),
        (f"paused: {row.name}", NOTICE) if row.is_paused else (row.name, ""),
    ]


def _job_cells(job: Job, look: Look) -> list[tuple[str, str]]:
    return [
        (spell_status(job), NOTICE if job.is_cancelled else _STYLES.get(job.status, FAINT)),
        (spell_span(job, look.at), ""),
        (f"{job.attempts}/{job.max_attempts}" if job.attempts else "", ""),
        (spell_progress(job.progress), GOOD),
        (short_id(job.id), FAINT),
        (job.entrypoint, ""),
        (spell_about(job), "" if job.status is JobStatus.IN_PROGRESS or job.error else FAINT),
    ]
