"""Frame: what is around every page: header, navigation, banner; and what a page is drawn with.

every second    the watch looks ──▶ header and banner; and, if something has changed, the page
a button        a question ──▶ the visitor's queue ──▶ a notification, and a look
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from nicegui import Client, ui
from starlette.requests import Request

from bucketq.broker.access import Role
from bucketq.dashboard.gate import BASE
from bucketq.dashboard.house import House
from bucketq.dashboard.page import Page
from bucketq.dashboard.parts import link, text
from bucketq.dashboard.standing import State, standing
from bucketq.dashboard.visitor import Visitor
from bucketq.dashboard.watch import Watch
from bucketq.errors import BucketQError, UnauthenticatedError
from bucketq.live.look import Look
from bucketq.queue import Queue
from bucketq.state import QueueState

log = logging.getLogger("bucketq")

# What a button does to the queue; it answers what was done, in a sentence.
Deed = Callable[[Queue], Awaitable[str]]

_ICONS = {
    State.READING: "check_circle",
    State.PAUSED: "pause_circle",
    State.STANDBY: "visibility",
    State.CHANGING: "sync",
    State.AWAY: "cloud_off",
    State.BEGINNING: "hourglass_empty",
}
_SHORTCUTS = (
    ("g, then a letter", "go to a page: the letters stand beside the names"),
    ("/", "go to the search"),
    ("t", "light, dark, or as the system has it"),
    ("m", "open or close the navigation"),
    ("?", "these shortcuts"),
    ("Escape", "close a dialog"),
    ("Tab, Enter", "everything else"),
)


class Frame:
    """One open page: whose it is, and how it is drawn and redrawn."""

    def __init__(
        self, house: House, visitor: Visitor, request: Request, client: Client, report: Path | None = None
    ) -> None:
        self.house = house
        # The file in which the data pipeline writes what it has found out.
        self.report = report
        self.visitor = visitor
        self.request = request
        self._client = client
        self._on_look: list[Callable[[Look], None]] = []
        self._on_second: list[Callable[[], None]] = []
        self._buttons: list[ui.button] = []
        self._scripts: list[str] = []
        self._drawn: QueueState | None = None
        self._is_leaving = False

    @property
    def watch(self) -> Watch:
        """The looks that all open pages share."""
        return self.visitor.watch

    def may(self, role: Role) -> bool:
        """Whether the visitor is this, or more: whether to show them a button."""
        return self.visitor.may(role)

    def each_look(self, draw: Callable[[Look], None]) -> None:
        """Draw now, and again whenever the queue has changed."""
        self._on_look.append(draw)
        if self.watch.look is not None:
            draw(self.watch.look)

    def each_second(self, draw: Callable[[], None]) -> None:
        """Draw now, and again every second: what grows by itself, such as an age."""
        self._on_second.append(draw)
        draw()

    def act(
        self,
        label: str,
        role: Role,
        question: str,
        deed: Deed,
        *,
        icon: str = "",
        is_grave: bool = False,
    ) -> ui.button | None:
        """A button that asks, does something to the queue and tells what; none for who may not.

        With an empty question it asks nothing.
        """
        if not self.may(role):
            return None

        async def click() -> None:
            await self.perform(question, deed, label=label, is_grave=is_grave)

        button = ui.button(label, icon=icon or None, on_click=click).props("no-caps unelevated")
        button.classes("bq-button bq-grave" if is_grave else "bq-button")
        self._buttons.append(button)
        self._show_obstacle()
        return button

    async def perform(self, question: str, deed: Deed, *, label: str = "Yes", is_grave: bool = False) -> bool:
        """Ask, do something to the queue, and tell what was done, or why not; return whether it was."""
        if question and not await self._confirm(question, label, is_grave):
            return False
        if obstacle := self.house.obstacle:
            self.tell(f"Nothing was done: {obstacle}.", is_trouble=True)
            return False
        try:
            told = await deed(self.visitor.queue)
        except UnauthenticatedError:
            self._lead_out()
            return False
        except (BucketQError, OSError) as error:
            self.tell(f"{error}", is_trouble=True)
            return False
        except Exception:
            log.exception("what a button of the dashboard does has failed")
            self.tell("That failed, and the log of the server says why.", is_trouble=True)
            return False
        self.tell(told)
        self.watch.look_soon()
        return True

    def tell(self, text: str, *, is_trouble: bool = False) -> None:
        """Show a sentence for a while."""
        with self._client:
            ui.notify(
                text,
                type="negative" if is_trouble else "positive",
                position="bottom",
                timeout=10_000 if is_trouble else 4_000,
                close_button="Close" if is_trouble else False,
                multi_line=len(text) > 80,
            )

    async def _confirm(self, question: str, label: str, is_grave: bool) -> bool:
        with self._client, ui.dialog() as dialog, ui.card().classes("bq-dialog"):
            ui.label(question)
            with ui.row().classes("bq-dialog-buttons"):
                ui.button("No", on_click=lambda: dialog.submit(False)).props("flat no-caps autofocus")
                yes = ui.button(label, on_click=lambda: dialog.submit(True)).props("no-caps unelevated")
                yes.classes("bq-button bq-grave" if is_grave else "bq-button")
        answer = await dialog
        dialog.delete()
        return bool(answer)

    async def build(self, page: Page, pages: Sequence[Page]) -> None:
        """Draw everything, and keep it up to date until the page is closed."""
        ui.page_title(f"{page.title} · bucketq")
        with suppress(TimeoutError):
            await self.watch.fresh()
        if (around := self._client.content.parent_slot) is not None:
            # Quasar says that all of it is the main part.
            around.parent.props["role"] = "presentation"
        text("a", "Skip to the content", "bq-skip").props["href"] = "#main"
        self._build_header()
        self._help = _help_dialog()
        with ui.element("div").classes("bq-body"):
            self._build_navigation(page, pages)
            self._main = ui.element("main").classes("bq-main").props('id="main" tabindex="-1"')
            with self._main:
                self._build_banner()
                with ui.element("div").classes("bq-page") as body:
                    text("h1", page.title, "bq-title")
                    await self._draw(page, body)
        self.each_second(self._show_standing)
        self.watch.join(self._client, self._redraw)
        self._client.on_delete(lambda: self.watch.leave(self._client))

    async def _draw(self, page: Page, body: ui.element) -> None:
        try:
            drawing = page.draw(self)
            if drawing is not None:
                await drawing
        except UnauthenticatedError:
            self._lead_out()
        except (BucketQError, OSError) as error:
            with body:
                ui.label(f"{error}").classes("bq-trouble")
        except Exception:
            log.exception("the page %s of the dashboard could not be drawn", page.path)
            with body:
                text("p", "This page could not be drawn, and the log of the server says why.", "bq-trouble")

    def _redraw(self) -> None:
        if self._is_leaving or not self._client.has_socket_connection:
            return
        if not self.visitor.is_welcome():
            self._lead_out()
            return
        with self._client:
            look = self.watch.look
            # Not what the last look has changed: the browser may not have been there then.
            if look is not None and look.state is not self._drawn:
                self._drawn = look.state
                for draw in self._on_look:
                    draw(look)
            for tick in self._on_second:
                tick()
        self._send_scripts()

    def run(self, script: str) -> None:
        """Run something in the browser, together with all else that this second brings."""
        self._scripts.append(script)

    def _send_scripts(self) -> None:
        if self._scripts:
            self._client.run_javascript(";".join(self._scripts))
            self._scripts.clear()

    def _lead_out(self) -> None:
        """To signing in: whoever was let in is not welcome any more."""
        self._is_leaving = True
        with self._client:
            path = quote(self.request.url.path, safe="")
            # NiceGUI puts the base before it.
            ui.navigate.to(f"/sign-in?expired=1&next={path}")

    def _build_header(self) -> None:
        with ui.element("header").classes("bq-header"):
            _icon_button("menu", "Navigation", "bq-menu", "bq.turnMenu()").props["aria-expanded"] = "false"
            with link("", "/", "bq-brand") as brand:
                brand.props["aria-label"] = "bucketq, overview"
                ui.element("img").props(f'src="{BASE}/assets/icon.svg" alt="" width="26" height="26"')
                text("span", "bucketq", "bq-brand-name")
            text("div", self.house.url, "bq-url").props["title"] = self.house.url
            ui.element("div").classes("bq-space")
            with (
                ui.element("div").classes("bq-state").props('role="status" aria-live="polite"') as self._state
            ):
                self._state_icon = ui.icon("hourglass_empty").props('aria-hidden="true"')
                self._state_text = text("span", "")
            self._leader = text("div", "", "bq-leader")
            _icon_button("contrast", "Light, dark, or as the system has it", "bq-theme", "bq.turnTheme()")
            help_button = ui.button(icon="keyboard", color=None, on_click=lambda: self._help.open())
            help_button.props('flat round dense aria-label="Keyboard shortcuts" id="bq-help"').classes(
                "bq-wide"
            )
            # Whoever came by the token of the environment would be back at once.
            if self.visitor.name and self.house.needs_token:
                with (
                    ui.element("form").props(f'method="post" action="{BASE}/sign-out"'),
                    ui.element("button").props('type="submit"').classes("bq-sign-out") as button,
                ):
                    button.props["title"] = f"You are {self.visitor.name}"
                    ui.icon("logout").props('aria-hidden="true"')
                    text("span", "Sign out")

    def _build_navigation(self, page: Page, pages: Sequence[Page]) -> None:
        with ui.element("nav").props('aria-label="Pages" id="bq-nav"').classes("bq-nav"):
            for one in pages:
                if not one.icon:
                    continue
                with link("", one.path, "bq-nav-item") as item:
                    if one.key:
                        item.props["data-key"] = one.key
                    if one.path in (page.path, page.parent):
                        item.props["aria-current"] = "page"
                    ui.icon(one.icon).props('aria-hidden="true"')
                    text("span", one.title)
                    if one.key:
                        text("kbd", one.key, "bq-key").props["aria-hidden"] = "true"
            with ui.element("div").classes("bq-foot"):
                if self.visitor.name:
                    roles = ", ".join(sorted(self.visitor.caller.roles))
                    text("div", f"{self.visitor.name}: {roles}")
                text("div", f"bucketq {version('bucketq')}")

    def _build_banner(self) -> None:
        with ui.element("div").classes("bq-banner").props('role="alert"') as self._banner:
            self._banner_icon = ui.icon("sync").props('aria-hidden="true"')
            self._banner_text = text("div", "")
            self._banner_link = text("a", "Its dashboard", "bq-banner-link")

    def _show_standing(self) -> None:
        now = standing(self.watch, self.house)
        self._state_icon.set_name(_ICONS[now.state])
        self._state_text.text = now.state.value
        _set(self._state, "data-state", now.state.name.lower())
        look = self.watch.look
        leader = look.state.leader if look is not None else None
        self._leader.text = f"led by {leader.address or leader.http}" if leader is not None else ""
        self._banner_icon.set_name(_ICONS[now.state])
        self._banner_text.text = now.told
        self._banner.set_visibility(bool(now.told))
        _set(self._banner, "data-state", now.state.name.lower())
        self._banner_link.set_visibility(bool(now.leader_http))
        if now.leader_http:
            scheme = "https" if self.request.url.scheme == "https" else "http"
            _set(self._banner_link, "href", f"{scheme}://{now.leader_http}{BASE}/")
        self._show_obstacle()

    def _show_obstacle(self) -> None:
        obstacle = self.house.obstacle
        _set(self._main, "data-obstacle", obstacle)
        for button in self._buttons:
            button.set_enabled(not obstacle)


def _icon_button(icon: str, label: str, name: str, script: str) -> ui.button:
    """A button that does something in the browser alone."""
    button = ui.button(icon=icon, color=None).props(f'flat round dense id="{name}"')
    button.props["aria-label"] = label
    return button.on("click", js_handler=f"() => {script}")


def _set(element: ui.element, name: str, value: str) -> None:
    # To set it is to send it.
    if element.props.get(name) != value:
        element.props[name] = value


def _help_dialog() -> ui.dialog:
    with ui.dialog().props('aria-label="Keyboard shortcuts"') as dialog, ui.card().classes("bq-dialog"):
        text("h2", "Keyboard shortcuts")
        with ui.element("dl").classes("bq-facts"):
            for keys, what in _SHORTCUTS:
                text("dt", keys)
                text("dd", what)
        ui.button("Close", on_click=dialog.close).props("flat no-caps autofocus")
    return dialog
