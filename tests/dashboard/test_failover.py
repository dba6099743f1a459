"""A failover while pages are open: they say so, show what is known, and go on with the next leader."""

import re
import signal

import pytest
from playwright.async_api import expect

import bucketq
from tests.acceptance.served import served, url_of
from tests.dashboard.alone import shown
from tests.dashboard.browser import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEATS = ("--dashboard", "--heartbeat-interval-s", "1", "--heartbeat-timeout-s", "7")


def queued(page):
    return page.locator(".bq-card", has_text="queued").locator(".bq-card-value")


async def test_open_pages_outlive_the_leader(chromium, tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with served(url, *BEATS) as first:
        first.wait_for("leading")
        with served(url, *BEATS) as second, shown(url_of("grpc", first, second)) as alone:
            second.wait_for("another broker leads")
            async with opened(chromium) as standby, opened(chromium) as beside:
                async with bucketq.connect(f"grpc://{first.address}") as queue:
                    await queue.enqueue("mail")
                await standby.goto(f"http://{second.http}/dashboard/")
                await beside.goto(alone)
                await expect(standby.get_by_role("alert")).to_contain_text("does not lead")
                leads_to = standby.get_by_role("link", name="Its dashboard")
                await expect(leads_to).to_have_attribute("href", f"http://{first.http}/dashboard/")
                for page in (standby, beside):
                    await expect(queued(page)).to_have_text("1")
                await expect(beside.get_by_role("alert")).to_be_hidden()

                first.signal(signal.SIGKILL)
                for page in (beside, standby):
                    await expect(page.get_by_role("alert")).to_contain_text(
                        re.compile("has been silent|leader may be changing"), timeout=60_000
                    )
                    await expect(page.locator(".bq-state")).to_have_text(re.compile("leader changing"))
                    # What was known stays.
                    await expect(queued(page)).to_have_text("1")
                for page in (standby, beside):
                    await expect(page.locator(".bq-state")).to_have_text(
                        re.compile("reading"), timeout=30_000
                    )
                    await expect(page.get_by_role("alert")).to_be_hidden()
                    await expect(page.locator(".bq-leader")).to_have_text(f"led by {second.address}")
                async with bucketq.connect(f"grpc://{second.address}") as queue:
                    await queue.enqueue("mail")
                for page in (standby, beside):
                    await expect(queued(page)).to_have_text("2")
                await beside.goto(f"{alone}/storage")
                await expect(beside.get_by_role("region", name="Requests of the leader")).to_contain_text(
                    "writes of queue.json"
                )
