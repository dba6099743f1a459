"""Entrypoints: how the jobs of each stand, and what is paused or limited."""

from nicegui import ui

from bucketq.broker.access import Role
from bucketq.dashboard.frame import Deed, Frame
from bucketq.dashboard.limit_dialog import LimitDialog
from bucketq.dashboard.parts import empty, panel, text
from bucketq.dashboard.rows import Row, entrypoint_row, limit_row
from bucketq.dashboard.table import Action, Column, Table
from bucketq.live.rows import entrypoint_rows
from bucketq.queue import Queue

# More of them nobody reads, and each travels once a second.
_SHOWN_MAX = 200

_COLUMNS = (
    Column("id", "Entrypoint", link="path"),
    Column("queued", "Queued", is_number=True),
    Column("running", "Running", is_number=True, tone="running_tone"),
    Column("scheduled", "Scheduled", is_number=True),
    Column("blocked", "Blocked", is_number=True),
    Column("dead", "Dead", is_number=True, link="dead_path", tone="dead_tone"),
    Column("oldest", "Oldest wait", is_number=True),
    Column("limit", "Limit"),
    Column("state", "State", tone="state_tone"),
)
_KEY_COLUMNS = (Column("id", "Limit key", is_code=True), Column("limit", "Limit"))


def draw_entrypoints(frame: Frame) -> None:
    """A table of them; what has work comes first."""
    limits = LimitDialog(frame)

    async def pause(row: Row) -> None:
        question = f"Pause {row['id']}? No more of its jobs begin; those that run go on."
        await frame.perform(question, _pausing(row["id"]), label="Pause")

    async def resume(row: Row) -> None:
        await frame.perform("", _resuming(row["id"]))

    may_act = frame.may(Role.ADMIN)
    actions = (Action("pause", "Pause", pause), Action("resume", "Resume", resume), limits.action)
    with ui.element("div").classes("bq-toolbar"):
        note = text("p", "", "bq-note")
        pausing = frame.act(
            "Pause the queue",
            Role.ADMIN,
            "Pause the whole queue? No more jobs begin; those that run go on.",
            _pausing(None),
            icon="pause",
        )
        resuming = frame.act("Resume the queue", Role.ADMIN, "", _resuming(None), icon="play_arrow")
    nothing = empty(
        "category",
        "No entrypoints yet",
        "An entrypoint is the name of a handler; it shows here with its first job.",
        f'bucketq enqueue hello \'{{"name": "world"}}\' --url {frame.house.url}',
    )
    with panel() as box:
        table = Table(_COLUMNS, label="Entrypoints", actions=actions if may_act else ())
    with panel("Limits by key") as keys_box:
        keys = Table(_KEY_COLUMNS, label="Limits by key")

    def show() -> None:
        look = frame.watch.look
        if look is None:
            return
        limits = look.state.limits
        rows = entrypoint_rows(look)
        table.show([entrypoint_row(row, limits.is_paused) for row in rows[:_SHOWN_MAX]])
        keys.show([limit_row(key, limit) for key, limit in limits.limit_keys.items()])
        keys_box.set_visibility(bool(limits.limit_keys))
        nothing.set_visibility(not rows)
        box.set_visibility(bool(rows))
        note.text = f"The first {_SHOWN_MAX} of {len(rows):,}, those with work before the others." * (
            len(rows) > _SHOWN_MAX
        )
        if pausing is not None and resuming is not None:
            pausing.set_visibility(not limits.is_paused)
            resuming.set_visibility(limits.is_paused)

    frame.each_second(show)


def _pausing(name: str | None) -> Deed:
    async def pause(queue: Queue) -> str:
        await queue.pause(name)
        return f"{name or 'The queue'} is paused."

    return pause


def _resuming(name: str | None) -> Deed:
    async def resume(queue: Queue) -> str:
        await queue.resume(name)
        return f"{name or 'The queue'} goes on."

    return resume
