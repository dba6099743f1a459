"""Dead letters: jobs that will not be tried again, by what they died of, so that one decision is enough."""

from nicegui import ui

from bucketq.broker.access import Role
from bucketq.dashboard.frame import Deed, Frame
from bucketq.dashboard.parts import empty, link, panel, text
from bucketq.dashboard.rereading import Rereading
from bucketq.dashboard.rows import Row, dead_row, job_row
from bucketq.dashboard.table import Action, Column, Table
from bucketq.live.dead import DeadLook, look_at_dead
from bucketq.queue import Queue

_GROUPS_SHOWN = 100
_JOBS_SHOWN = 50

_GROUP_COLUMNS = (
    Column("entrypoint", "Entrypoint", link="path"),
    Column("jobs", "Jobs", is_number=True),
    Column("error", "Error", link="path", is_code=True, is_wide=True),
    Column("last", "Last", is_number=True),
    Column("newest", "Newest", link="newest_path", is_code=True),
)
_JOB_COLUMNS = (
    Column("job", "Job", link="path", is_code=True),
    Column("entrypoint", "Entrypoint"),
    Column("span", "Dead for", is_number=True),
    Column("attempts", "Attempts", is_number=True),
    Column("about", "Error", is_code=True, is_wide=True),
)


async def draw_dead(frame: Frame) -> None:
    """The groups; and, once an entrypoint or an error was chosen, the jobs themselves."""
    query = frame.request.query_params
    await _DeadView(frame, query.get("entrypoint") or None, query.get("error") or None).draw()


class _DeadView:
    """The dead jobs of an entrypoint, or of all, with an error, or any."""

    def __init__(self, frame: Frame, entrypoint: str | None, error: str | None) -> None:
        self._frame = frame
        self._entrypoint = entrypoint
        self._error = error

    async def draw(self) -> None:
        """Draw it, and again when the queue has changed."""
        frame = self._frame
        is_chosen = bool(self._entrypoint or self._error)
        if is_chosen:
            with ui.element("p").classes("bq-chosen"):
                text("span", f"Only those {_spell(self._entrypoint, self._error)}. ")
                link("All dead letters", "/dead")
        with ui.element("div").classes("bq-toolbar"):
            self._note = text("p", "", "bq-note")
            with ui.element("div").classes("bq-buttons") as self._buttons:
                self._draw_buttons()
        self._nothing = empty("sentiment_satisfied", *self._spell_nothing())
        may_act = frame.may(Role.ADMIN)
        with panel("By error") as self._groups_box:
            actions = (
                Action("redrive", "Redrive", self._redrive_group),
                Action("discard", "Discard", self._discard_group, is_grave=True),
            )
            self._groups = Table(
                _GROUP_COLUMNS, label="Dead letters by error", actions=actions if may_act else ()
            )
        with panel("Jobs") as self._jobs_box:
            actions = (
                Action("redrive", "Redrive", self._redrive_one),
                Action("discard", "Discard", self._discard_one, is_grave=True),
            )
            self._jobs = Table(_JOB_COLUMNS, label="Dead jobs", actions=actions if may_act else ())
        self._show(await self._read())
        self._rereading = Rereading(frame, self._read, self._show)

    async def _read(self) -> DeadLook:
        return await look_at_dead(self._frame.visitor.queue, self._entrypoint, self._error)

    def _show(self, found: DeadLook) -> None:
        self._found = found
        look = self._frame.watch.look
        if look is None:
            return
        jobs, now = found.jobs[:_JOBS_SHOWN], self._frame.watch.now
        self._groups.show([dead_row(group, now) for group in found.groups[:_GROUPS_SHOWN]])
        self._jobs.show([{**job_row(job, now), "actions": ["redrive", "discard"]} for job in jobs])
        for box in (self._groups_box, self._jobs_box, self._buttons):
            box.set_visibility(bool(jobs))
        self._nothing.set_visibility(not jobs)
        self._note.text = _spell_found(found, look.state.stats.dead)

    def _draw_buttons(self) -> None:
        frame, chosen = self._frame, _spell(self._entrypoint, self._error)
        frame.act(
            "Redrive all of these",
            Role.ADMIN,
            f"Redrive all dead jobs {chosen}? Each becomes a new job that waits for its turn.",
            _redriving(self._entrypoint, self._error),
            icon="replay",
        )
        frame.act(
            "Discard all of these",
            Role.ADMIN,
            f"Discard all dead jobs {chosen}? The archive keeps what they were, but they are not redriven.",
            _discarding(self._entrypoint, self._error),
            icon="delete",
            is_grave=True,
        )

    async def _perform(self, question: str, deed: Deed, *, label: str, is_grave: bool = False) -> None:
        if await self._frame.perform(question, deed, label=label, is_grave=is_grave):
            self._rereading.soon()

    async def _redrive_group(self, row: Row) -> None:
        entrypoint, error = row["entrypoint"], row["error_text"]
        question = f"Redrive {self._spell_chosen(entrypoint, error)}? Each becomes a new job."
        await self._perform(question, _redriving(entrypoint, error), label="Redrive")

    async def _discard_group(self, row: Row) -> None:
        entrypoint, error = row["entrypoint"], row["error_text"]
        question = f"Discard {self._spell_chosen(entrypoint, error)}? They cannot be redriven then."
        await self._perform(question, _discarding(entrypoint, error), label="Discard", is_grave=True)

    async def _redrive_one(self, row: Row) -> None:
        async def redrive(queue: Queue) -> str:
            again = await queue.redrive(row["id"])
            return f"Job {row['job']} is done again, as {again.id}."

        question = f"Redrive job {row['job']} of {row['entrypoint']}? A new one takes its place."
        await self._perform(question, redrive, label="Redrive")

    async def _discard_one(self, row: Row) -> None:
        async def discard(queue: Queue) -> str:
            await queue.discard(row["id"])
            return f"Job {row['job']} is discarded; the archive keeps what it was."

        question = f"Discard job {row['job']} of {row['entrypoint']}? It cannot be redriven then."
        await self._perform(question, discard, label="Discard", is_grave=True)

    def _spell_chosen(self, entrypoint: str, error: str) -> str:
        number = f"{self._found.matching(entrypoint, error):,}"
        # Those that this page leaves out are chosen too.
        is_known = self._found.is_all and (self._error or "") in error
        told = number if is_known else f"{number} or more"
        return f"{told} dead {'job' if told == '1' else 'jobs'} {_spell(entrypoint, error)}"

    def _spell_nothing(self) -> tuple[str, str]:
        if self._entrypoint or self._error:
            return (
                "No such dead letters",
                "None is dead with this error any more: all were redriven or discarded.",
            )
        return (
            "No dead letters",
            "A job that fails for the last time waits here, with its errors, until somebody redrives or"
            " discards it.",
        )


def _redriving(entrypoint: str | None, error: str | None) -> Deed:
    async def redrive(queue: Queue) -> str:
        return f"{_jobs(await queue.redrive_many(entrypoint, error=error))} redriven."

    return redrive


def _discarding(entrypoint: str | None, error: str | None) -> Deed:
    async def discard(queue: Queue) -> str:
        return f"{_jobs(await queue.discard_many(entrypoint, error=error))} discarded."

    return discard


def _spell(entrypoint: str | None, error: str | None) -> str:
    """Which ones, in words.

    >>> _spell("mail", "refused"), _spell(None, None)
    ('of mail whose error has “refused” in it', 'of the queue')
    """
    words = [f"of {entrypoint}"] if entrypoint else [] if error else ["of the queue"]
    return " ".join([*words, f"whose error has “{error}” in it"] if error else words)


def _spell_found(found: DeadLook, dead: int) -> str:
    if not found.jobs:
        return ""
    number = len(found.jobs)
    told = "1 dead job" if number == 1 else f"{number:,} dead jobs"
    shown = f"{told}; the newest {_JOBS_SHOWN} are listed." if number > _JOBS_SHOWN else f"{told}."
    return shown if found.is_all else f"Looked at {found.looked:,} of {dead:,}: {shown}"


def _jobs(count: int) -> str:
    return "1 job was" if count == 1 else f"{count:,} jobs were"
