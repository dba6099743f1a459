"""What is around every page: navigation, theme, keyboard, phone, and a server that is gone."""

import re

import pytest
from playwright.async_api import expect

from tests.acceptance.served import served
from tests.dashboard.browser import GONE, PHONE, opened

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUND = "getComputedStyle(document.body).backgroundColor"
PAGES = ("Overview", "Entrypoints", "Jobs", "Dead letters", "Schedules", "Workers", "Brokers", "Report")


async def test_the_navigation_leads_to_every_page(chromium, dashboard):
    async with opened(chromium) as page:
        await page.goto(dashboard)
        for title in (*PAGES, "Storage", "Raw state"):
            await page.get_by_role("navigation").get_by_text(title, exact=True).click()
            await expect(page.get_by_role("heading", level=1)).to_have_text(title)
            await expect(
                page.get_by_role("link", name=title).and_(page.locator("[aria-current]"))
            ).to_be_visible()
            await expect(page.locator(".bq-state")).to_have_text(re.compile("reading"))


async def test_it_is_dark_where_the_system_is_and_can_be_switched(chromium, dashboard):
    async with opened(chromium, theme="dark") as page:
        await page.goto(dashboard)
        await expect(page.locator("body")).to_have_class(re.compile("body--dark"))
        dark = await page.evaluate(GROUND)
        await page.get_by_role("button", name="Light, dark").click()
        await expect(page.locator("body")).not_to_have_class(re.compile("body--dark"))
        assert await page.evaluate(GROUND) != dark
        await page.reload()
        await expect(page.locator("body")).not_to_have_class(re.compile("body--dark"))
        await page.keyboard.press("t")
        await expect(page.locator("body")).to_have_class(re.compile("body--dark"))


async def test_a_phone_has_the_navigation_behind_a_button_and_nothing_wider_than_itself(chromium, dashboard):
    async with opened(chromium, size=PHONE) as page:
        for path in ("/", "/brokers", "/storage", "/raw"):
            await page.goto(dashboard + path)
            await expect(page.locator(".bq-state")).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        await expect(page.get_by_role("navigation")).to_be_hidden()
        await page.get_by_role("button", name="Navigation").click()
        await page.get_by_role("navigation").get_by_text("Brokers").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Brokers")
        await expect(page.get_by_role("navigation")).to_be_hidden()


async def test_everything_is_reached_by_keyboard(chromium, dashboard):
    async with opened(chromium) as page:
        await page.goto(dashboard)
        await expect(page.locator(".bq-state")).to_have_text(re.compile("reading"))
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to the content")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()
        await expect(page.get_by_role("main")).to_have_count(1)
        await page.keyboard.press("?")
        await expect(page.get_by_text("go to a page")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator(".q-dialog")).to_have_count(0)
        await page.keyboard.press("g")
        await page.keyboard.press("b")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Brokers")
        await page.keyboard.press("Tab")
        ring = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(ring) == "solid"


async def test_a_page_says_when_its_server_is_gone_and_goes_on_when_it_is_back(chromium, tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with served(url, "--dashboard") as broker:
        at = broker.http
        async with opened(chromium, allowed=GONE) as page:
            await page.goto(f"http://{at}/dashboard/brokers")
            await expect(page.locator(".bq-state")).to_have_text(re.compile("reading"))
            broker.stop()
            await expect(page.get_by_text("does not answer")).to_be_visible()
            await expect(page.locator(".bq-state")).to_be_hidden()
            with served(url, "--dashboard", "--http-port", at.rpartition(":")[2]) as again:
                again.wait_for("leading")
                await expect(page.get_by_text("does not answer")).to_be_hidden(timeout=30_000)
                await expect(page.locator(".bq-state")).to_have_text(re.compile("reading"))
