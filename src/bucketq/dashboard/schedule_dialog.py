"""ScheduleDialog: a button, and the form behind it, that add a schedule."""

import msgspec
from nicegui import ui

from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import text
from bucketq.errors import PayloadError
from bucketq.jobline import UNREADABLE
from bucketq.queue import Queue
from bucketq.words import spell_moment


class ScheduleDialog:
    """Asks what is to be enqueued, and when."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        opening = ui.button("Add a schedule", icon="add").props("no-caps unelevated").classes("bq-button")
        with ui.dialog() as self._dialog, ui.card().classes("bq-dialog"):
            text("h2", "Add a schedule")
            self._name = ui.input("Name", placeholder="report").props("autofocus")
            self._entrypoint = ui.input("Entrypoint", placeholder="send_report")
            self._cron = ui.input("Cron", placeholder="30 9 * * MON-FRI")
            self._tz = ui.input("Time zone of cron", value="UTC")
            self._every = ui.number("Or every so many seconds", min=1)
            self._payload = ui.input("Payload, as JSON", placeholder='{"to": "ada"}')
            text("p", "One of the same name is replaced.", "bq-note")
            with ui.row().classes("bq-dialog-buttons"):
                ui.button("Close", on_click=self._dialog.close).props("flat no-caps")
                ui.button("Add", on_click=self._add).props("no-caps unelevated").classes("bq-button")
        opening.on_click(self._dialog.open)

    async def _add(self) -> None:
        name, entrypoint = self._name.value.strip(), self._entrypoint.value.strip()
        cron, tz = self._cron.value.strip() or None, self._tz.value.strip() or "UTC"
        every, payload = self._every.value, self._payload.value.strip()

        async def schedule(queue: Queue) -> str:
            made = await queue.schedule(name, entrypoint, _json(payload), cron=cron, tz=tz, every=every)
            following = "never" if made.next_at is None else spell_moment(made.next_at)
            return f"{made.name} is scheduled; its next tick is {following}."

        if await self._frame.perform("", schedule):
            self._dialog.close()


def _json(payload: str) -> bytes:
    """A payload as it was typed, as short as can be: it travels with every commit."""
    try:
        return msgspec.json.format(payload.encode(), indent=-1) if payload else b""
    except UNREADABLE as error:
        raise PayloadError(f"the payload is no JSON ({error}): quote texts, or leave it empty") from None
