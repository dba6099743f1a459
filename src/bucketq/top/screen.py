"""Top: the screen of a queue, its keys, and what they do.

every second    look ──▶ every panel shows it; a failed look shows its reason instead
a key           a question, but to resume ──▶ the queue ──▶ a line that says what was done, a look
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import DataTable, Footer, Input, Static

from bucketq.clock import Clock, SystemClock
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.job import Job, JobStatus
from bucketq.live.look import Look, Looker
from bucketq.live.rows import ORDER, Filter, entrypoint_rows, job_rows, worker_rows
from bucketq.live.trend import Trend
from bucketq.live.words import short_id, spell_status
from bucketq.queue import Queue
from bucketq.storage.port import Bucket, describe
from bucketq.top.dialogs import Question, help_sheet, job_sheet
from bucketq.top.palette import THEME
from bucketq.top.panels import Heading, Trends
from bucketq.top.tables import EntrypointTable, JobTable, WorkerTable
from bucketq.words import printable


class Top(App[None]):
    """Shows an open queue until somebody quits.

    async with bucketq.connect(url) as queue:
        await Top(queue).run_async()
    """

    ENABLE_COMMAND_PALETTE = False
    # A tall terminal has room for room.
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012 (textual's own way)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "next_status", "Status"),
        Binding("r", "retry", "Retry"),
        Binding("c", "cancel", "Cancel"),
        Binding("p", "pause", "Pause"),
        Binding("P", "pause_queue", "Pause all", key_display="P"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("escape", "show_all", show=False),
    ]
    CSS = """
    Screen { padding: 0 1; }
    ModalScreen { padding: 0; }
    #of-queue { height: 2fr; min-height: 4; }
    EntrypointTable { width: 3fr; margin-right: 2; }
    WorkerTable { width: 2fr; }
    JobTable { height: 3fr; }
    Screen.-tall Heading, Screen.-tall Trends, Screen.-tall #of-queue { margin-bottom: 1; }
    #wanted { height: 1; border: none; padding: 0; display: none; }
    #wanted.open { display: block; }
    #message { height: auto; max-height: 3; display: none; }
    #message.told { display: block; }
    #message.trouble { color: $error; text-style: bold; }
    """

    def __init__(self, queue: Queue, *, every_s: float = 1.0, clock: Clock | None = None) -> None:
        super().__init__()
        if not isinstance(queue.storage, Bucket):
            raise ConfigurationError(
                "top shows queues that bucketq.connect opens; this storage is another one"
            )
        if every_s <= 0:
            raise ConfigurationError(f"top looks every so many seconds, more than 0, not {every_s:g}")
        self._queue = queue
        self._looker = Looker(queue.storage, clock or SystemClock())
        self._every_s = every_s
        self._trend = Trend()
        self._look: Look | None = None
        # Whether the last look failed.
        self._is_away = False
        self._filter = Filter()
        self.title = f"bucketq top {describe(queue.storage)}"

    def compose(self) -> ComposeResult:
        yield Heading(describe(self._queue.storage))
        yield Trends()
        with Horizontal(id="of-queue"):
            yield EntrypointTable("Entrypoints")
            yield WorkerTable("Workers")
        yield JobTable("Jobs")
        yield Input(
            placeholder="a part of an entrypoint, id, worker, error, payload …", id="wanted", compact=True
        )
        yield Static("", id="message")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.theme = THEME
        self.query_one(JobTable).focus()
        self.run_worker(self._watch(), name="bucketq top")

    async def look(self) -> None:
        """Look at the queue now, and show it; what is wrong stands on the screen until it is right again."""
        try:
            look = await self._looker.look()
            self._trend.add(look)
        except (BucketQError, OSError) as error:
            self._is_away = True
            self._tell(f"The queue cannot be read: {error}", is_trouble=True)
            return
        if not self.is_running:
            return  # there is no screen any more
        self._look = look
        if self._is_away:
            self._is_away = False
            self._tell("")
        self.query_one(Heading).show(self._look)
        self.query_one(Trends).show(self._trend)
        self.query_one(EntrypointTable).show(entrypoint_rows(self._look))
        self.query_one(WorkerTable).show(worker_rows(self._look))
        self._show_jobs()

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    def _show_jobs(self) -> None:
        if self._look is None:
            return
        jobs = job_rows(self._look, self._filter)
        table = self.query_one(JobTable)
        table.show(self._look, jobs)
        told = ["Jobs", *self._filter.told(), f"{table.row_count:,} of {self._look.state.stats.total:,}"]
        table.border_title = Text(printable(" · ".join(told)))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if isinstance(event.data_table, JobTable):
            self._inspect()
            return
        name = event.row_key.value
        is_worker = isinstance(event.data_table, WorkerTable)
        self._want(Filter(worker=name) if is_worker else Filter(entrypoint=name))
        self.query_one(JobTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._want(self._filter._replace(text=event.value))

    def on_input_submitted(self) -> None:
        self._close_filter()

    def action_filter(self) -> None:
        """Let a text be typed."""
        wanted = self.query_one("#wanted", Input)
        wanted.value = self._filter.text
        wanted.add_class("open").focus()

    def action_next_status(self) -> None:
        """Show the jobs of the next status; after the last one all."""
        statuses: list[JobStatus | None] = [None, *ORDER]
        following = (statuses.index(self._filter.status) + 1) % len(statuses)
        self._want(self._filter._replace(status=statuses[following]))

    def action_show_all(self) -> None:
        """Filter nothing."""
        self._close_filter()
        self._want(Filter())
        self._tell("")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(help_sheet())

    def action_retry(self) -> None:
        """Redrive the dead job under the cursor."""
        job = self._chosen_job()
        if job is None:
            return
        if job.status is not JobStatus.DEAD:
            self._tell(f"Job {short_id(job.id)} is {spell_status(job)}: only dead jobs are retried.")
            return

        async def retry() -> str:
            again = await self._queue.redrive(job.id)
            return f"Job {short_id(job.id)} is done again, as {again.id}."

        # When it is gone from the table another one is under the cursor, and the key may still be down.
        self._ask(f"Retry job {job.id} of {job.entrypoint}? A new one takes its place.", retry)

    def action_cancel(self) -> None:
        """Cancel the job under the cursor."""
        job = self._chosen_job()
        if job is None:
            return
        if job.status is JobStatus.DEAD:
            self._tell(f"Job {short_id(job.id)} is dead: retry it with r, or leave it.")
            return

        async def cancel() -> str:
            cancelled = await self._queue.cancel(job.id)
            if cancelled.status is JobStatus.IN_PROGRESS:
                return f"Job {short_id(job.id)} is to stop: its next heartbeat tells its worker."
            return f"Job {short_id(job.id)} is cancelled."

        self._ask(f"Cancel job {job.id} of {job.entrypoint}, which is {spell_status(job)}?", cancel)

    def action_pause(self) -> None:
        """Pause, or resume, the entrypoint under the cursor, or that of the job there."""
        if isinstance(self.focused, EntrypointTable):
            name = self.focused.chosen
        else:
            job = self._chosen_job()
            name = job.entrypoint if job is not None else None
        if name is None or self._look is None:
            return
        if name in self._look.state.limits.paused:
            self._do(self._resuming(name))
        else:
            self._ask(f"Pause {name}? No more of its jobs begin; those that run go on.", self._pausing(name))

    def action_pause_queue(self) -> None:
        """Pause, or resume, the whole queue."""
        if self._look is None:
            return
        if self._look.state.limits.is_paused:
            self._do(self._resuming(None))
        else:
            self._ask("Pause the whole queue? No more jobs begin; those that run go on.", self._pausing(None))

    def _pausing(self, name: str | None) -> "Deed":
        async def pause() -> str:
            await self._queue.pause(name)
            return f"{name or 'The queue'} is paused. The same key lets it go on."

        return pause

    def _resuming(self, name: str | None) -> "Deed":
        async def resume() -> str:
            await self._queue.resume(name)
            return f"{name or 'The queue'} goes on."

        return resume

    def _inspect(self) -> None:
        job = self._chosen_job()
        if job is not None:
            self.run_worker(self._open_sheet(job))

    async def _open_sheet(self, job: Job) -> None:
        try:
            payload = await self._queue.fetch_payload(job)
        except (BucketQError, OSError) as error:
            self._tell(str(error), is_trouble=True)
            return
        self.push_screen(job_sheet(job, payload))

    def _ask(self, question: str, deed: "Deed") -> None:
        def answer(is_yes: bool | None) -> None:
            if is_yes:
                self._do(deed)

        self.push_screen(Question(question), answer)

    def _do(self, deed: "Deed") -> None:
        async def do() -> None:
            try:
                told = await deed()
            except (BucketQError, OSError) as error:
                self._tell(str(error), is_trouble=True)
                return
            self._tell(told)
            await self.look()

        self.run_worker(do())

    def _chosen_job(self) -> Job | None:
        chosen = self.query_one(JobTable).chosen
        return self._look.state.find(chosen) if chosen and self._look else None

    def _want(self, wanted: Filter) -> None:
        self._filter = wanted
        self._show_jobs()

    def _close_filter(self) -> None:
        self.query_one("#wanted").remove_class("open")
        self.query_one(JobTable).focus()

    def _tell(self, message: str, *, is_trouble: bool = False) -> None:
        if not self.is_running:
            return
        line = self.query_one("#message", Static)
        line.update(Text(printable(message)))
        line.set_class(bool(message), "told")
        line.set_class(is_trouble, "trouble")


# What a key does to the queue; it answers what was done.
Deed = Callable[[], Awaitable[str]]
