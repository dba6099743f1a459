"""LimitDialog: how many jobs of an entrypoint may run, and begin."""

from nicegui import ui

from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import text
from bucketq.dashboard.rows import Row
from bucketq.dashboard.table import Action
from bucketq.queue import Queue


class LimitDialog:
    """Asks for the limit of an entrypoint, and sets it; empty fields mean no limit."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._name = ""
        self.action = Action("limit", "Limit …", self._open)
        with ui.dialog() as self._dialog, ui.card().classes("bq-dialog"):
            self._title = text("h2", "")
            self._running = ui.number("Running at the same time", min=0, precision=0)
            self._rate = ui.number("Begun a second", min=0)
            self._burst = ui.number("Begun at once after a rest (burst)", min=1, precision=0)
            text("p", "An empty field does not limit. Clear all of them to remove the limit.", "bq-note")
            with ui.row().classes("bq-dialog-buttons"):
                ui.button("Close", on_click=self._dialog.close).props("flat no-caps")
                ui.button("Set the limit", on_click=self._set).props("no-caps unelevated").classes(
                    "bq-button"
                )

    async def _open(self, row: Row) -> None:
        look = self._frame.watch.look
        self._name = row["id"]
        limit = look.state.limits.entrypoints.get(self._name) if look is not None else None
        self._title.text = f"The limit of {self._name}"
        self._running.value = limit and limit.max_running
        self._rate.value = limit and limit.rate
        self._burst.value = limit and limit.burst
        self._dialog.open()

    async def _set(self) -> None:
        name, rate = self._name, self._rate.value or None
        running, burst = _whole(self._running.value), _whole(self._burst.value)

        async def limit(queue: Queue) -> str:
            await queue.limit(name, max_running=running, rate=rate, burst=burst)
            is_removed = running is rate is burst is None
            return f"{name} has no limit any more." if is_removed else f"The limit of {name} is set."

        if await self._frame.perform("", limit):
            self._dialog.close()


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
