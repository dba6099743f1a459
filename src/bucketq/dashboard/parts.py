"""Parts: what pages are put together from, so that they look alike.

    text("h2", "Workers")                        a piece of text, in any tag
    with panel("Throughput"): ...                a box with a heading
    with cards(): card("queued").show("12")      figures in a row
    facts().show([("address", "10.0.0.7")])      names and values
    empty("inbox", "No jobs", "…", "bucketq …")  nothing to see, and what to do about it
    link("Jobs", "/jobs?status=dead")            another page of the dashboard

All that changes has `show`, and sends to the browser only what is not there already.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from bucketq.dashboard.gate import BASE


def text(tag: str, content: str, classes: str = "") -> TextElement:
    """A piece of text in a tag such as h2, p or code."""
    return TextElement(tag=tag, text=content).classes(classes)


def link(content: str, path: str, classes: str = "bq-link") -> TextElement:
    """A link to another page of the dashboard."""
    anchor = text("a", content, classes)
    anchor.props["href"] = BASE + path
    return anchor


@contextmanager
def panel(title: str = "", classes: str = "") -> Iterator[ui.element]:
    """A box with a heading."""
    with ui.element("section").classes(f"bq-panel {classes}") as box:
        if title:
            text("h2", title, "bq-panel-title")
            box.props["aria-label"] = title
        yield box


@contextmanager
def cards() -> Iterator[ui.element]:
    """Figures side by side, as many as fit."""
    with ui.element("div").classes("bq-cards") as row:
        yield row


class card:  # noqa: N801 (a part like the others, with something to show)
    """One figure: what it is, how much, and a few words beside it."""

    def __init__(self, label: str, *, kind: str = "", path: str = "") -> None:
        tag = "a" if path else "div"
        with ui.element(tag).classes(f"bq-card {f'bq-{kind}' if kind else ''}") as self._box:
            if path:
                self._box.props["href"] = BASE + path
            text("div", label, "bq-card-label")
            self._value = text("div", "-", "bq-card-value")
            self._note = text("div", "", "bq-card-note")

    def show(self, value: str, note: str = "", *, is_loud: bool | None = None) -> None:
        """Show a value; loud in its colour, if it has one and is told to be."""
        self._value.text = value
        self._note.text = note
        if is_loud is not None and is_loud != ("bq-loud" in self._box.classes):
            self._box.classes(**{"add" if is_loud else "remove": "bq-loud"})


class facts:  # noqa: N801
    """Names and values, one a line."""

    def __init__(self) -> None:
        self._list = ui.element("dl").classes("bq-facts")
        self._shown: dict[str, TextElement] = {}

    def show(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Show these, and no others."""
        wanted = dict(pairs)
        if list(wanted) != list(self._shown):
            self._list.clear()
            with self._list:
                self._shown = {}
                for name in wanted:
                    text("dt", name)
                    self._shown[name] = text("dd", "")
        for name, value in wanted.items():
            self._shown[name].text = value


def empty(icon: str, title: str, told: str, command: str = "") -> ui.element:
    """Nothing to see, and what to do next: a command for the terminal."""
    with ui.element("div").classes("bq-empty") as box:
        ui.icon(icon).props('aria-hidden="true"')
        text("h2", title)
        text("p", told)
        if command:
            with ui.element("div").classes("bq-command"):
                text("code", command)
                copy = ui.button(icon="content_copy").props('flat dense round aria-label="Copy the command"')
                copy.on("click", js_handler=f"() => bq.copy({command!r})")
    return box
