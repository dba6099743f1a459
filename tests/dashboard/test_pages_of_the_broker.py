"""The pages of the broker itself: brokers, storage and cost, raw state."""

import re

import pytest
from playwright.async_api import expect

import bucketq
from tests.acceptance.served import served
from tests.dashboard.browser import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_brokers_shows_who_leads_and_what_it_was_asked(chromium, broker, dashboard):
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/brokers")
        leader = page.get_by_role("region", name="Leader")
        await expect(leader).to_contain_text(broker.address)
        await expect(leader).to_contain_text(broker.http)
        await expect(page.get_by_role("region", name="This broker", exact=True)).to_contain_text("leads")
        async with bucketq.connect(f"http://{broker.http}") as queue:
            await queue.enqueue("mail")
        await expect(page.get_by_role("region", name="Requests to this broker")).to_contain_text("Batch")


async def test_storage_shows_the_requests_and_what_they_cost(chromium, dashboard):
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/storage")
        await expect(page.get_by_role("row", name="writes of queue.json")).to_have_text(re.compile(r"\$0"))
        reads = page.get_by_role("row", name="reads of queue.json").get_by_role("cell").nth(1)
        before = int(await reads.inner_text())
        # Looking costs a read a second, which counts like any other.
        await expect(reads).not_to_have_text(str(before))


async def test_storage_says_whole_what_a_budget_does(chromium, tmp_path):
    prices = ("--price-per-1000-writes", "1000", "--budget-per-month", "5000")
    with served(f"file://{tmp_path}/queue.json", "--dashboard", *prices) as broker:
        broker.wait_for("leading")
        async with bucketq.connect(f"grpc://{broker.address}") as queue, opened(chromium) as page:
            for _ in range(4):
                await queue.enqueue("mail")
            await page.goto(f"http://{broker.http}/dashboard/storage")
            await expect(page.locator(".bq-notice")).to_contain_text(
                "the budget of $5,000 a month", ignore_case=True
            )
            await expect(page.get_by_role("row", name="writes of queue.json")).to_contain_text("$1,000")
            cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
            assert await page.locator(".bq-card div").evaluate_all(cut) == []


async def test_raw_state_is_queue_json_without_tokens(chromium, broker, dashboard):
    async with bucketq.connect(f"grpc://{broker.address}") as queue:
        await queue.enqueue("fax", {"to": "<b>Ann</b>"})
        [job] = await queue.dequeue("fax")
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/raw")
        await expect(page.locator("pre")).to_contain_text(job.id)
        shown = await page.locator("pre").inner_text()
        assert '"to":"<b>Ann</b>"' in shown
        assert job.token not in await page.content()
        async with bucketq.connect(f"grpc://{broker.address}") as queue:
            await queue.ack(job)
        await page.get_by_role("button", name="Read again").click()
        await expect(page.locator("pre")).to_contain_text("finished_at")
