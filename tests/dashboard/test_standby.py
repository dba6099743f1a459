"""The dashboard of a broker that does not lead: everything can be looked at there, and nothing done."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

import bucketq
from tests.acceptance.served import served
from tests.dashboard.browser import need_chromium, opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """One that leads, and one that stands by; what is finished goes to the archive soon."""
    need_chromium()
    url = f"file://{tmp_path_factory.mktemp('queue')}/queue.json"
    with served(url, "--dashboard", BUCKETQ_ARCHIVE_JOBS_MAX="5") as leader:
        leader.wait_for("leading")
        with served(url, "--dashboard", "--grpc-port", "0", "--http-port", "0") as standby:
            yield leader, standby


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def queue(brokers):
    async with bucketq.connect(f"grpc://{brokers[0].address}") as queue:
        queue.done = await queue.enqueue_many("mail", range(20))
        for _ in queue.done:
            await queue.ack((await queue.dequeue("mail"))[0])
        yield queue


async def test_the_archive_and_the_dead_are_seen_on_a_standby_and_stay_as_they_are(chromium, brokers, queue):
    assert [info async for info in queue.storage.objects.list("archive/")], "some have arrived there"
    await queue.enqueue("fax", max_attempts=1)
    dead = await queue.nack((await queue.dequeue("fax"))[0], "Busy")
    at = f"http://{brokers[1].http}/dashboard"
    async with opened(chromium) as page:
        await page.goto(f"{at}/jobs?status=finished&entrypoint=mail")
        finished = page.get_by_role("table", name="Finished jobs").locator("tbody tr")
        await expect(finished).to_have_count(20)
        await page.goto(f"{at}/jobs/{queue.done[0]}")
        await expect(page.locator(".bq-badge")).to_have_text("completed")
        await page.goto(f"{at}/dead")
        # They are faint, and a mouse does not reach them; a keyboard does.
        redrive = page.locator("tbody tr", has_text="Busy").first.get_by_role("button", name="Redrive")
        await redrive.focus()
        await page.keyboard.press("Enter")
        await page.locator(".q-dialog").get_by_role("button", name="Redrive").click()
        await expect(page.get_by_text("Nothing was done: this broker does not lead")).to_be_visible()
        assert (await queue.find(dead)).status == "dead"
