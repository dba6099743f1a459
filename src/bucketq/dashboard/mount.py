"""Mounting the dashboard: NiceGUI, behind the gate, as one ASGI application.

NiceGUI is one for a whole process, and so is the dashboard.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

from fastapi import FastAPI
from nicegui import Client, app, core, ui
from nicegui.translations import translations
from starlette.requests import Request
from starlette.responses import Response

from bucketq.broker.http_shell import Pages
from bucketq.broker.serving import Inside
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.gate import BASE, HTML, PLAIN_HEADERS, VISITOR, Gate
from bucketq.dashboard.house import BrokerHouse, House
from bucketq.dashboard.outside import missing_page
from bucketq.dashboard.page import Page
from bucketq.dashboard.pages import PAGES
from bucketq.errors import ConfigurationError

_ASSETS = Path(__file__).parent / "assets"
# Long enough for a laptop that changes its network; then the server forgets the page.
_RECONNECT_WITHIN_S = 10.0
_CLOSE_S = 3.0


def on_broker(inside: Inside, report: Path | None) -> AbstractAsyncContextManager[Pages]:
    """The dashboard of a broker, while the block runs."""
    return mounted(BrokerHouse(inside), is_encrypted=inside.is_encrypted, report=report)


@asynccontextmanager
async def mounted(house: House, *, is_encrypted: bool, report: Path | None) -> AsyncIterator[Gate]:
    """The dashboard of a house, while the block runs; `report` is what the data pipeline has written.

    Raises ConfigurationError for another one in the same process.
    """
    if app.config.has_run_config:
        raise ConfigurationError(
            "a process shows one dashboard, and once: start another process for the next"
        )
    outer = FastAPI(openapi_url=None)
    _configure(outer)
    for page in PAGES:
        _register(page, house, report)
    gate = Gate(outer, house, is_encrypted=is_encrypted)
    async with outer.router.lifespan_context(outer):
        try:
            yield gate
        finally:
            # A storage, or a broker, that does not answer must not hold up the end.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await gate.close()
                    await house.close()


def _configure(outer: FastAPI) -> None:
    # What NiceGUI has to say goes where the broker's own words go.
    logging.getLogger("nicegui").parent = logging.getLogger("bucketq")
    # Its own page would be kept for a minute, for whoever asks for anything.
    app.add_exception_handler(404, _tell_missing)
    app.add_static_files("/assets", _ASSETS, max_cache_age=3600)
    app.config.socket_io_js_transports = ["websocket"]
    core.sio.eio.transports = ["websocket"]
    # Before anything is drawn: else a page that is to be dark is bright for a moment.
    app.config.vue_config_script += "\n        bq.applyTheme();\n"
    translations["en-US"]["connection_lost"] = "The server of this dashboard does not answer."
    translations["en-US"]["trying_to_reconnect"] = "What you see is old. Trying to reconnect …"
    ui.add_head_html(
        f'<link rel="stylesheet" href="{BASE}/assets/dashboard.css">'
        f'<script src="{BASE}/assets/dashboard.js"></script>',
        shared=True,
    )
    ui.run_with(
        outer,
        mount_path=BASE,
        title="bucketq",
        favicon=_ASSETS / "icon.svg",
        dark=None,
        language="en-US",
        # Nothing is bound: what changes is drawn.
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT_WITHIN_S,
        # Compressing a script takes longer than sending it, and the broker has other things to do.
        gzip_middleware_factory=None,
        # Its compiler would run in every browser, and the style sheet is a page long.
        tailwind=False,
        show_welcome_message=False,
    )


async def _tell_missing(request: Request, error: Exception) -> Response:
    return Response(missing_page(BASE), 404, PLAIN_HEADERS, HTML)


def _register(page: Page, house: House, report: Path | None) -> None:
    @ui.page(page.path, response_timeout=10.0)
    async def build(request: Request, client: Client) -> None:
        frame = Frame(house, request.scope[VISITOR], request, client, report)
        await frame.build(page, PAGES)
