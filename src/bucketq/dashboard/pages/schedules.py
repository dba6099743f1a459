"""Schedules: jobs that are enqueued again and again, by the clock; with their next and their last tick."""

from nicegui import ui

from bucketq.broker.access import Role
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, panel, text
from bucketq.dashboard.rows import Row, schedule_row
from bucketq.dashboard.schedule_dialog import ScheduleDialog
from bucketq.dashboard.table import Action, Column, Table
from bucketq.queue import Queue

_COLUMNS = (
    Column("id", "Schedule"),
    Column("entrypoint", "Entrypoint", link="path"),
    Column("times", "Times", is_code=True),
    Column("next", "Next tick"),
    Column("last", "Last tick"),
    Column("missed", "If missed"),
    Column("payload", "Payload", is_code=True, is_wide=True),
)


def draw_schedules(frame: Frame) -> None:
    """A table of them; those who may add and remove them."""

    async def remove(row: Row) -> None:
        async def unschedule(queue: Queue) -> str:
            await queue.unschedule(row["id"])
            return f"{row['id']} is removed; what it has enqueued stays."

        question = f"Remove the schedule {row['id']}? What it has enqueued stays."
        await frame.perform(question, unschedule, label="Remove", is_grave=True)

    may_act = frame.may(Role.PRODUCER)
    with ui.element("div").classes("bq-toolbar"):
        text("p", "Each tick adds one job, whoever is there to see it: a broker, or a worker.", "bq-note")
        if may_act:
            ScheduleDialog(frame)
    nothing = empty(
        "schedule",
        "No schedules",
        "A schedule enqueues a job again and again: by cron, or every so many seconds.",
        f"bucketq schedules add report send_report --cron '30 9 * * MON-FRI' --url {frame.house.url}",
    )
    with panel() as box:
        actions = [Action("remove", "Remove", remove, is_grave=True)] if may_act else []
        table = Table(_COLUMNS, label="Schedules", actions=actions)

    def show() -> None:
        look = frame.watch.look
        if look is None:
            return
        rows = [schedule_row(schedule, look.at) for schedule in look.state.schedules]
        table.show(rows)
        nothing.set_visibility(not rows)
        box.set_visibility(bool(rows))

    frame.each_second(show)
