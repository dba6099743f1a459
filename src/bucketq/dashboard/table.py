"""Table: rows of text, with links, bars and buttons. On a phone each row is a card.

    jobs = Table([Column("id", "Job", link="path"), Column("status", "Status")], label="Jobs")
    jobs.show([{"id": "0192…", "path": "/jobs/0192…", "status": "queued"}])

What a row holds is shown as text, whatever it looks like. A row that stays, by its `id`, keeps its
place in the browser, and with it the focus of whoever goes through the table by keyboard.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from bucketq.dashboard.gate import BASE

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column: the field of a row that it shows, its heading, and how."""

    field: str
    label: str
    is_number: bool = False
    # Fields of a row: the path of the dashboard to which the cell leads, and what it is coloured as.
    link: str = ""
    tone: str = ""
    is_code: bool = False
    # Whether it is a share from 0 to 1; whether it takes all the room that others leave.
    is_bar: bool = False
    is_wide: bool = False


class Action(NamedTuple):
    """A button in the rows whose `actions` name it."""

    name: str
    label: str
    act: Callable[[Any], Awaitable[object]]
    is_grave: bool = False


class Table(Element, component="assets/table.js"):
    """A table of the dashboard."""

    def __init__(self, columns: Sequence[Column], *, label: str, actions: Sequence[Action] = ()) -> None:
        super().__init__()
        self._links = [one.link for one in columns if one.link]
        self._acts = {one.name: one.act for one in actions}
        self._shown: Sequence[Row] = ()
        self._props["columns"] = [
            {
                "field": one.field,
                "label": one.label,
                "isNumber": one.is_number,
                "isCode": one.is_code,
                "isBar": one.is_bar,
                "isWide": one.is_wide,
                "link": one.link,
                "tone": one.tone,
            }
            for one in columns
        ]
        self._props["actions"] = [
            {"name": one.name, "label": one.label, "isGrave": one.is_grave} for one in actions
        ]
        self._props["rows"] = []
        self._props["label"] = label
        self.on("act", self._act)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows. Paths begin with a slash, and are below the dashboard's own."""
        if rows == self._shown:
            return
        self._shown = rows
        self._props["rows"] = [
            {**row, **{link: BASE + row[link] for link in self._links if row.get(link)}} for row in rows
        ]
        self.update()

    async def _act(self, event: GenericEventArguments) -> None:
        asked = event.args if isinstance(event.args, dict) else {}
        act = self._acts.get(asked.get("action", ""))
        row = next((row for row in self._shown if row["id"] == asked.get("id")), None)
        # It may have gone while somebody was about to click.
        if act is not None and row is not None:
            await act(row)
