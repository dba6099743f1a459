"""A real browser before a real dashboard: headless Chromium, through Playwright.

Whatever a page says on the console as a warning or an error, every exception, and every request to another
host than this machine fails the test that had the page open.
"""

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from playwright.async_api import async_playwright, expect

# The first one has no windows to draw, and takes half the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
# A page on a busy machine takes its time. It only guards against hanging.
WITHIN_S = 60
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
# What Chromium itself says when a server that it talks to is gone; tests that kill one expect it.
GONE = ("ERR_CONNECTION_REFUSED", "WebSocket connection to", "ERR_CONNECTION_RESET")


def need_chromium():
    """Skip where there is no Chromium; where everything has to be tested, fail."""
    if CHROMIUM is None:
        reason = "there is no Chromium: install Debian's chromium-headless-shell, or Chrome"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@asynccontextmanager
async def browser():
    """A browser, while the block runs."""
    need_chromium()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield chromium
        finally:
            await chromium.close()


@asynccontextmanager
async def opened(chromium, *, size=DESKTOP, theme="light", allowed=()):
    """A page of its own, while the block runs; at its end nothing must have gone wrong in it.

    `allowed` are parts of what the console may say.
    """
    context = await chromium.new_context(viewport=size, color_scheme=theme)
    context.set_default_timeout(WITHIN_S * 1000)
    expect.set_options(timeout=WITHIN_S * 1000)
    page = await context.new_page()
    wrong = []

    def note(what):
        if not any(part in what for part in allowed):
            wrong.append(what)

    def look_at(request):
        host = urlsplit(request.url).hostname
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss") and host not in (
            "127.0.0.1",
            "localhost",
        ):
            wrong.append(f"a request leaves this machine: {request.url}")

    page.on("console", lambda message: message.type in ("error", "warning") and note(message.text))
    page.on("pageerror", lambda error: note(f"{error}"))
    page.on("request", look_at)
    page.on("websocket", look_at)
    try:
        yield page
    finally:
        await context.close()
    assert not wrong, wrong


async def eventually(look, limit_s=15.0):
    """Look again and again until it is true."""
    async with asyncio.timeout(limit_s):
        while not (found := await look()):
            await asyncio.sleep(0.05)
    return found
