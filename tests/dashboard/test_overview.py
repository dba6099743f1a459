"""The overview: an empty queue says how to begin, and what happens shows within a second."""

import pytest
from playwright.async_api import expect

import bucketq
from tests.dashboard.browser import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_empty_queue_says_how_to_begin_and_then_shows_what_comes(chromium, broker, dashboard):
    async with opened(chromium) as page:
        await page.goto(dashboard)
        await expect(page.get_by_text("Nothing has been enqueued yet")).to_be_visible()
        await expect(page.get_by_text("bucketq enqueue hello")).to_be_visible()
        await expect(page.get_by_text("reading")).to_be_visible()
        async with bucketq.connect(f"grpc://{broker.address}") as queue:
            for _ in range(3):
                await queue.enqueue("mail")
            await expect(page.locator(".bq-card", has_text="queued").locator(".bq-card-value")).to_have_text(
                "3"
            )
            await expect(page.get_by_text("Nothing has been enqueued yet")).to_be_hidden()
            [job] = await queue.dequeue("mail")
            await queue.ack(job)
        await expect(page.locator(".bq-card", has_text="done").locator(".bq-card-value")).to_have_text("1")
        await expect(page.locator(".bq-chart canvas")).to_have_count(4)
