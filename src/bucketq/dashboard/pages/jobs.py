"""Jobs: those that wait, run, are dead or are finished, page by page; what is chosen stands in the address.

One page costs the same wherever it is, and a search looks at so many jobs before it says how far it got.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from nicegui import ui

from bucketq.archive import Archive
from bucketq.archived_job import ArchivedJob
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.gate import BASE
from bucketq.dashboard.parts import empty, link, panel, text
from bucketq.dashboard.rereading import Rereading
from bucketq.dashboard.rows import finished_row, job_path, job_row, jobs_path
from bucketq.dashboard.table import Column, Table
from bucketq.job import JobStatus
from bucketq.listing import Page, mentions
from bucketq.live.finding import find_job
from bucketq.live.look import Look
from bucketq.mint import time_of
from bucketq.words import spell_count

_SIZE = 50
_FINISHED = "finished"
_FINISHED_SHOWN = 100
_TABS = (
    ("", "All"),
    (JobStatus.IN_PROGRESS.value, "Running"),
    (JobStatus.QUEUED.value, "Queued"),
    (JobStatus.SCHEDULED.value, "Scheduled"),
    (JobStatus.BLOCKED.value, "Blocked"),
    (JobStatus.DEAD.value, "Dead"),
    (_FINISHED, "Finished"),
)
_COLUMNS = (
    Column("job", "Job", link="path", is_code=True),
    Column("status", "Status", tone="tone"),
    Column("entrypoint", "Entrypoint"),
    Column("span", "For", is_number=True),
    Column("attempts", "Attempts", is_number=True),
    Column("about", "About", is_wide=True),
)
_FINISHED_COLUMNS = (
    Column("job", "Job", link="path", is_code=True),
    Column("status", "Status", tone="tone"),
    Column("entrypoint", "Entrypoint"),
    Column("span", "Finished", is_number=True),
    Column("took", "Ran", is_number=True),
    Column("worker", "Worker"),
    Column("about", "Error", is_wide=True),
)


class Wanted(NamedTuple):
    """What the address asks for."""

    status: str = ""
    entrypoint: str = ""
    text: str = ""
    # The token of the page, and how many jobs are before it, as far as the address tells.
    page: str = ""
    before: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        """What a query string asks for; what makes no sense is left out."""
        status = query.get("status", "")
        before = query.get("before", "")
        return cls(
            status if status in dict(_TABS) else "",
            query.get("entrypoint", ""),
            query.get("text", "").strip(),
            query.get("page", ""),
            int(before) if before.isascii() and before.isdigit() and len(before) < 16 else 0,
        )

    def path(self, **changed: str) -> str:
        """The address of a first page like this one, but for what is changed."""
        return jobs_path(
            **({"status": self.status, "entrypoint": self.entrypoint, "text": self.text} | changed)
        )

    def totals(self, look: Look) -> Counter[str]:
        """How many jobs of the entrypoint there are of each status; and of all, whose name is empty."""
        totals: Counter[str] = Counter()
        for (name, status), count in look.state.counts().items():
            if self.entrypoint in ("", name):
                totals[status.value] += count
                totals[""] += count
        return totals


async def draw_jobs(frame: Frame) -> None:
    """The chosen jobs, and ways to choose others."""
    wanted = Wanted.of(frame.request.query_params)
    if time_of(wanted.text) is not None and await find_job(frame.visitor.queue, wanted.text) is not None:
        ui.navigate.to(job_path(wanted.text))
        return
    _draw_choice(frame, wanted)
    if wanted.status == _FINISHED:
        await _draw_finished(frame, wanted)
    else:
        await _draw_live(frame, wanted)


def _draw_choice(frame: Frame, wanted: Wanted) -> None:
    with ui.element("nav").classes("bq-tabs").props('aria-label="Status"'):
        counts = {}
        for status, label in _TABS:
            with link("", wanted.path(status=status), "bq-tab") as tab:
                if status == wanted.status:
                    tab.props('aria-current="page"')
                text("span", label)
                counts[status] = text("span", "", "bq-tab-count")
    with ui.element("div").classes("bq-filter"):
        select = ui.select(
            _entrypoints(wanted, None),
            label="Entrypoint",
            value=wanted.entrypoint,
            with_input=True,
            on_change=lambda event: ui.navigate.to(wanted.path(entrypoint=event.value or "")),
        )
        select.props("outlined dense options-dense").classes("bq-filter-select")
        search = ui.input(
            "Search", value=wanted.text, placeholder="an id, or a part of payload, error, worker …"
        )
        search.props("outlined dense clearable data-search").classes("bq-filter-text")
        search.on("keydown.enter", lambda: ui.navigate.to(wanted.path(text=(search.value or "").strip())))
        search.on("clear", lambda: ui.navigate.to(wanted.path(text="")))

    def show(look: Look) -> None:
        if (names := _entrypoints(wanted, look)) != select.options:
            select.set_options(names)
        totals = wanted.totals(look)
        for status, _ in _TABS:
            counts[status].text = "" if status == _FINISHED else spell_count(totals[status])

    frame.each_look(show)


def _entrypoints(wanted: Wanted, look: Look | None) -> dict[str, str]:
    names = {name for name, _ in look.state.counts()} if look is not None else set()
    return {"": "Every entrypoint"} | {name: name for name in sorted(names | {wanted.entrypoint}) if name}


async def _draw_live(frame: Frame, wanted: Wanted) -> None:
    nothing = empty("search_off", *_nothing(frame, wanted))
    with panel() as box:
        table = Table(_COLUMNS, label="Jobs")
    with ui.element("nav").classes("bq-pages").props('aria-label="Pages of jobs"'):
        told = text("p", "", "bq-note")
        first = link("First page", wanted.path(), "bq-page-link")
        following = link("Next page", "", "bq-page-link")

    def show(page: Page) -> None:
        look = frame.watch.look
        if look is None:
            return
        table.show([job_row(job, frame.watch.now) for job in page.jobs])
        total = wanted.totals(look)[wanted.status]
        told.text = _told(wanted, page, total)
        box.set_visibility(bool(page.jobs))
        nothing.set_visibility(not page.jobs and not page.next_token)
        first.set_visibility(bool(wanted.page))
        following.set_visibility(bool(page.next_token))
        seen = wanted.before + (page.looked if wanted.text else len(page.jobs))
        following.text = "Search on" if wanted.text and len(page.jobs) < _SIZE else "Next page"
        following.props["href"] = BASE + wanted.path(page=page.next_token, before=str(seen))

    async def read() -> Page:
        return await frame.visitor.queue.page(
            wanted.page,
            size=_SIZE,
            status=wanted.status or None,
            entrypoint=wanted.entrypoint or None,
            text=wanted.text or None,
        )

    show(await read())
    # A search is not done over and over: whoever wants it again presses Enter.
    if not wanted.text:
        Rereading(frame, read, show)


async def _draw_finished(frame: Frame, wanted: Wanted) -> None:
    archive = Archive(frame.visitor.queue.storage)

    async def read() -> list[ArchivedJob]:
        return await archive.newest(_FINISHED_SHOWN, entrypoint=wanted.entrypoint or None)

    nothing = empty(
        "inventory_2",
        "No job has finished"
        if not wanted.entrypoint
        else f"No job of {wanted.entrypoint} has finished lately",
        "Start a worker, and what it finishes shows here.",
        f"bucketq work myapp:app --url {frame.house.url}",
    )
    with panel() as box:
        table = Table(_FINISHED_COLUMNS, label="Finished jobs")
    note = text("p", f"The newest {_FINISHED_SHOWN}; `bucketq archive --since 7d` lists more.", "bq-note")

    def show(found: list[ArchivedJob]) -> None:
        chosen = [job for job in found if mentions(job, wanted.text)]
        table.show([finished_row(job, frame.watch.now) for job in chosen])
        for part in (box, note):
            part.set_visibility(bool(chosen))
        nothing.set_visibility(not chosen)

    show(await read())
    Rereading(frame, read, show)


def _told(wanted: Wanted, page: Page, total: int) -> str:
    """Where in the list a page is, and how far a search has got."""
    if wanted.text:
        looked = wanted.before + page.looked
        found = f"{len(page.jobs):,} found on this page"
        return f"{found}; looked through {min(looked, total):,} of {total:,}." if total else ""
    if not page.jobs:
        return ""
    first = wanted.before + 1
    return f"{first:,} to {wanted.before + len(page.jobs):,} of {total:,}"


def _nothing(frame: Frame, wanted: Wanted) -> tuple[str, str, str]:
    """What to say when there are none, and what to do about it."""
    if wanted.text:
        return "Nothing found", "No job that waits, runs or is dead has this in what it tells.", ""
    if wanted.status or wanted.entrypoint:
        return "No such jobs", "None in the queue at the moment; it shows here as soon as there is one.", ""
    return (
        "No jobs",
        "Nothing waits or runs. Enqueue a job; it shows here within seconds.",
        f'bucketq enqueue hello \'{{"name": "world"}}\' --url {frame.house.url}',
    )
