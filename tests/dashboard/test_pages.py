"""Every page with something of everything, and empty; on a desk and on a phone; and what its buttons do."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

import bucketq
from tests.acceptance.served import served
from tests.dashboard.browser import PHONE, eventually, need_chromium, opened
from tests.dashboard.scene import REPORT, fill

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What Chromium says of the script in the report, which must not run.
BLOCKED = "Blocked script execution in 'about:srcdoc'"
# A page, and what it says while there is nothing.
EMPTY = {
    "/entrypoints": ("No entrypoints yet", "bucketq enqueue"),
    "/jobs": ("No jobs", "bucketq enqueue"),
    "/jobs?status=dead": ("No such jobs", ""),
    "/jobs?text=ada": ("Nothing found", ""),
    "/jobs?status=finished": ("No job has finished", "bucketq work"),
    "/jobs/nobody": ("No such job", "bucketq archive"),
    "/dead": ("No dead letters", ""),
    "/schedules": ("No schedules", "bucketq schedules add"),
    "/workers": ("No worker holds a job", "bucketq work"),
    "/report": ("No report yet", "bucketq pipeline report"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A broker whose dashboard has a report, too."""
    need_chromium()
    folder = tmp_path_factory.mktemp("shop")
    (folder / "report.html").write_text(REPORT)
    options = ("--dashboard", "--report", str(folder / "report.html"))
    with served(f"file://{folder}/queue.json", *options) as broker:
        broker.wait_for("leading")
        yield broker


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def queue(shop):
    async with bucketq.connect(f"grpc://{shop.address}") as queue:
        queue.ids = await fill(queue)
        yield queue


@pytest.fixture(scope="module")
def at(shop, queue):
    """The dashboard of a queue with something of everything."""
    return f"http://{shop.http}/dashboard"


def row(page, text):
    """The rows of tables that have a text."""
    return page.locator("tbody tr", has_text=text)


async def confirm(page, label):
    """Answer the question that a button asks."""
    await page.locator(".q-dialog").get_by_role("button", name=label, exact=True).click()
    await expect(page.locator(".q-dialog")).to_have_count(0)


async def test_empty_pages_say_what_to_do_next(chromium, dashboard):
    async with opened(chromium) as page:
        for path, (title, command) in EMPTY.items():
            await page.goto(dashboard + path)
            await expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            await expect(page.locator(".bq-empty")).to_contain_text(command)


async def test_a_page_fits_a_phone_and_can_be_gone_through_by_keyboard(chromium, queue, at):
    job = f"/jobs/{queue.ids['dead']}"
    async with opened(chromium, size=PHONE, theme="dark", allowed=[BLOCKED]) as page:
        for path in ("/entrypoints", "/jobs", job, "/dead", "/schedules", "/workers", "/report"):
            await page.goto(at + path)
            await expect(page.locator("h1")).to_be_visible()
            await page.wait_for_function("document.querySelector('.bq-table tbody tr, .bq-job, .bq-report')")
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} pixels too wide"
        await page.goto(f"{at}/entrypoints")
        link = page.get_by_role("link", name="charge_card")
        await link.focus()
        wait = row(page, "charge_card").locator('[data-label="Oldest wait"]')
        # Once it has been drawn again, whoever was there is still there.
        await expect(wait).not_to_have_text(await wait.inner_text(), timeout=65_000)
        await expect(link).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{at}/jobs?entrypoint=charge_card")


async def test_entrypoints_are_counted_paused_resumed_and_limited(chromium, queue, at):
    async with opened(chromium) as page:
        await page.goto(f"{at}/entrypoints")
        mail = row(page, "send_email")
        await expect(mail.locator('[data-label="Running"]')).to_have_text("7")
        await expect(mail.locator('[data-label="Dead"]')).to_have_text("12")
        await expect(row(page, "charge_card").locator('[data-label="Limit"]')).to_have_text("4 running, 10/s")
        await expect(page.get_by_role("table", name="Limits by key")).to_contain_text("customer-*")
        await mail.get_by_role("button", name="Pause").click()
        await confirm(page, "Pause")
        await expect(mail.locator('[data-label="State"]')).to_have_text("paused")
        assert "send_email" in (await queue.limits()).paused
        await mail.get_by_role("button", name="Resume").click()
        await expect(mail.locator('[data-label="State"]')).to_have_text("open")
        assert "send_email" not in (await queue.limits()).paused
        await page.get_by_role("button", name="Pause the queue").click()
        await confirm(page, "Pause the queue")
        await expect(page.get_by_role("button", name="Resume the queue")).to_be_visible()
        assert (await queue.limits()).is_paused
        await page.get_by_role("button", name="Resume the queue").click()
        await expect(page.get_by_role("button", name="Pause the queue")).to_be_visible()
        await row(page, "resize_image").get_by_role("button", name="Limit").click()
        await page.get_by_label("Running at the same time").fill("3")
        await page.get_by_role("button", name="Set the limit").click()
        await expect(row(page, "resize_image").locator('[data-label="Limit"]')).to_have_text("3 running")
        assert (await queue.limits()).entrypoints["resize_image"].max_running == 3


async def test_a_dead_job_tells_all_about_itself_and_is_redriven(chromium, queue, at):
    [dead] = (await queue.page(size=1, status="dead", entrypoint="send_email")).jobs
    async with opened(chromium) as page:
        await page.goto(f"{at}/jobs/{dead.id}")
        job = page.locator(".bq-job")
        await expect(job.locator(".bq-badge")).to_have_text("dead")
        for told in ("claimed by web-3:901", 'File "shop/smtp.py", line 88', '"to": "user-'):
            await expect(job.get_by_text(told).first).to_be_visible()
        await page.get_by_role("button", name="Redrive").click()
        await confirm(page, "Redrive")
        await expect(page).not_to_have_url(f"{at}/jobs/{dead.id}")
        again = await queue.find(page.url.rsplit("/", 1)[1])
        assert again.redrive_of == dead.id
        await page.get_by_role("link", name="The job that it does again").click()
        await expect(page).to_have_url(f"{at}/jobs/{dead.id}")
        await expect(page.get_by_role("button", name="Redrive")).to_have_count(0)


async def test_a_job_is_seen_to_run_and_to_end(chromium, queue, at):
    await queue.enqueue("watched", {"n": 1})
    [job] = await queue.dequeue("watched", worker="web-9:1")
    async with opened(chromium) as page:
        await page.goto(f"{at}/jobs/{job.id}")
        await expect(page.locator(".bq-badge")).to_have_text("running")
        await queue.ack(job, {"sent": True})
        await expect(page.locator(".bq-badge")).to_have_text("completed")
        await expect(page.get_by_text('"sent": true')).to_be_visible()
        await expect(page.get_by_role("button", name="Cancel the job")).to_have_count(0)


async def test_waiting_and_running_jobs_are_cancelled(chromium, queue, at):
    waiting = await queue.enqueue("unwanted")
    async with opened(chromium) as page:
        await page.goto(f"{at}/jobs/{waiting.id}")
        await page.get_by_role("button", name="Cancel the job").click()
        await confirm(page, "No")
        assert (await queue.find(waiting)).status == "queued"
        await page.get_by_role("button", name="Cancel the job").click()
        await confirm(page, "Cancel the job")
        await expect(page.locator(".bq-badge")).to_have_text("cancelled")
        assert await queue.find(waiting) is None
        await page.goto(f"{at}/jobs/{queue.ids['running']}")
        await page.get_by_role("button", name="Cancel the job").click()
        await confirm(page, "Cancel the job")
        await expect(page.locator(".bq-badge")).to_have_text("cancelling")
        assert (await queue.find(queue.ids["running"])).is_cancelled


async def test_dead_letters_are_redriven_and_discarded_by_their_error_or_one_by_one(chromium, queue, at):
    async def dead(error):
        return sum([error in job.error async for job in queue.dead()])

    async with opened(chromium) as page:
        await page.goto(f"{at}/dead")
        groups = page.get_by_role("table", name="Dead letters by error").locator("tbody tr")
        refused = groups.filter(has_text="ValueError")
        await expect(refused.locator('[data-label="Jobs"]')).to_have_text("3")
        jobs = page.get_by_role("table", name="Dead jobs").locator("tbody tr", has_text="TimeoutError")
        await jobs.first.get_by_role("button", name="Discard").click()
        await confirm(page, "Discard")
        await eventually(lambda: _is(dead("TimeoutError"), 1))
        await expect(jobs).to_have_count(1)
        await jobs.first.get_by_role("button", name="Redrive").click()
        await confirm(page, "Redrive")
        await expect(jobs).to_have_count(0)
        assert await dead("TimeoutError") == 0
        await refused.get_by_role("button", name="Redrive").click()
        await expect(page.get_by_text("Redrive 3 dead jobs of send_email whose error has")).to_be_visible()
        await confirm(page, "Redrive")
        await expect(refused).to_have_count(0)
        assert await dead("ValueError") == 0
        await groups.get_by_role("link", name="ConnectionError").click()
        await expect(page.get_by_text("Only those of send_email whose error has")).to_be_visible()
        left = await dead("ConnectionError")
        assert left > 1
        await page.get_by_role("button", name="Discard all of these").click()
        await confirm(page, "Discard all of these")
        await expect(page.get_by_text(f"{left} jobs were discarded.")).to_be_visible()
        await expect(page.get_by_role("heading", name="No such dead letters")).to_be_visible()
        assert (await queue.stats()).dead == 0


async def test_schedules_are_added_and_removed(chromium, queue, at):
    async with opened(chromium) as page:
        await page.goto(f"{at}/schedules")
        await expect(row(page, "nightly report")).to_contain_text("30 2 * * * Europe/Vienna")
        await page.get_by_role("button", name="Add a schedule").click()
        await page.get_by_label("Name").fill("hourly")
        await page.get_by_label("Entrypoint").fill("count_stock")
        await page.get_by_label("Cron", exact=True).fill("61 * * * *")
        await page.get_by_label("Payload").fill('{"shelf": 7}')
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_text("is no schedule")).to_be_visible()
        await page.get_by_label("Cron", exact=True).fill("0 * * * *")
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(row(page, "hourly")).to_contain_text("count_stock")
        [made] = [one for one in await queue.schedules() if one.name == "hourly"]
        assert (made.cron, made.job.payload) == ("0 * * * *", b'{"shelf":7}')
        await row(page, "hourly").get_by_role("button", name="Remove").click()
        await confirm(page, "Remove")
        await expect(row(page, "hourly")).to_have_count(0)
        assert "hourly" not in [one.name for one in await queue.schedules()]


async def test_workers_are_seen_with_what_they_hold_and_how_far_it_is(chromium, queue, at):
    async with opened(chromium) as page:
        await page.goto(f"{at}/workers")
        workers = page.get_by_role("table", name="Workers")
        await expect(workers.locator("tbody tr", has_text="batch-1:88")).to_contain_text("2")
        jobs = page.get_by_role("table", name="Jobs that run").locator("tbody tr")
        await expect(jobs.filter(has_text="750 of 1,000 orders")).to_contain_text("75%")
        await workers.get_by_role("link", name="batch-1:88").click()
        await expect(page.get_by_role("heading", name="Jobs of batch-1:88")).to_be_visible()
        await expect(jobs).to_have_count(2)


async def test_the_report_is_shown_and_can_do_nothing(chromium, at):
    async with opened(chromium, allowed=[BLOCKED]) as page:
        await page.goto(f"{at}/report")
        shown = page.frame_locator(".bq-report")
        await expect(shown.get_by_role("heading", name="What the queue did")).to_be_visible()
        assert await page.title() == "Report · bucketq"


async def _is(look, expected):
    return await look == expected
