"""The jobs: chosen by the address, page by page, however many there are; as text, whatever they hold."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

import bucketq
from tests.dashboard.browser import PHONE, opened

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEEP = 45_000
EVIL = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def queue(broker):
    async with bucketq.connect(f"grpc://{broker.address}") as queue:
        queue.deep = await queue.enqueue_many("resize", ({"image": n} for n in range(DEEP)))
        yield queue


def ids(page):
    return page.get_by_role("table", name="Jobs").locator("tbody tr td:first-child")


async def test_a_deep_backlog_is_gone_through_page_by_page(chromium, queue, dashboard):
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/jobs?status=queued&entrypoint=resize")
        await expect(page.get_by_text(f"1 to 50 of {DEEP:,}")).to_be_visible()
        await expect(ids(page)).to_have_text([one[-8:] for one in queue.deep[:50]])
        await page.get_by_role("link", name="Next page").click()
        await expect(page.get_by_text(f"51 to 100 of {DEEP:,}")).to_be_visible()
        await expect(ids(page)).to_have_text([one[-8:] for one in queue.deep[50:100]])
        await page.go_back()
        await expect(page.get_by_text(f"1 to 50 of {DEEP:,}")).to_be_visible()
        far = (await queue.find(queue.deep[40_000])).sequence
        await page.goto(f"{dashboard}/jobs?status=queued&page=1.0.0.{far}&before=40001")
        await expect(page.get_by_text(f"40,002 to 40,051 of {DEEP:,}")).to_be_visible()
        await expect(ids(page)).to_have_text([one[-8:] for one in queue.deep[40_001:40_051]])
        await page.get_by_role("link", name="First page").click()
        await expect(page).to_have_url(f"{dashboard}/jobs?status=queued")


async def test_a_search_says_how_far_it_got_and_goes_on(chromium, queue, dashboard):
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/jobs")
        await page.keyboard.press("/")
        await page.keyboard.type(f'"image":{DEEP - 1}')
        await page.keyboard.press("Enter")
        await expect(page.get_by_text(f"looked through 20,000 of {DEEP:,}")).to_be_visible()
        await page.get_by_role("link", name="Search on").click()
        await expect(page.get_by_text(f"looked through 40,000 of {DEEP:,}")).to_be_visible()
        await page.get_by_role("link", name="Search on").click()
        await expect(ids(page)).to_have_text([queue.deep[-1][-8:]])


async def test_an_id_is_found_wherever_the_job_is(chromium, queue, dashboard):
    done = await queue.enqueue("mail")
    await queue.ack((await queue.dequeue("mail"))[0])
    async with opened(chromium) as page:
        for job_id, status in ((queue.deep[30_000], "queued"), (done.id, "completed")):
            await page.goto(f"{dashboard}/jobs")
            await page.get_by_label("Search").fill(job_id)
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(f"{dashboard}/jobs/{job_id}")
            await expect(page.locator(".bq-badge")).to_have_text(status)


async def test_finished_jobs_are_listed_the_newest_first(chromium, queue, dashboard):
    made = [await queue.enqueue("letter", {"n": n}) for n in range(3)]
    for _ in made:
        await queue.ack((await queue.dequeue("letter", worker="web-1:1"))[0])
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/jobs?status=finished&entrypoint=letter")
        first = page.get_by_role("table", name="Finished jobs").locator("tbody tr td:first-child")
        await expect(first).to_have_text([job.id[-8:] for job in made[::-1]])


async def test_the_entrypoint_is_chosen_by_name(chromium, queue, dashboard):
    await queue.enqueue("fax")
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/jobs")
        await page.get_by_label("Entrypoint").click()
        await page.keyboard.type("fax")
        await page.locator(".q-menu").get_by_text("fax", exact=True).click()
        await expect(page).to_have_url(f"{dashboard}/jobs?entrypoint=fax")
        await expect(ids(page)).to_have_count(1)


async def test_what_others_wrote_is_shown_as_text(chromium, queue, dashboard):
    long, strange = "x" * 200, f"{EVIL} 🦆 {{{{ 1 + 1 }}}}"
    for name in (strange, long):
        for _ in range(2):
            await queue.enqueue(name, strange, max_attempts=1)
        [first, second] = await queue.dequeue(name, batch_size=2, worker=EVIL)
        await queue.nack(first, strange, trace=strange)
        await queue.heartbeat(second, 0.5, strange)
    await queue.schedule(strange, strange, strange, every=3600)
    await queue.limit(strange, max_running=1)
    dead = (await anext(queue.dead(strange))).id
    for size in ({"width": 1280, "height": 800}, PHONE):
        async with opened(chromium, size=size) as page:
            for path in ("/jobs?text=🦆", f"/jobs/{dead}", "/dead", "/entrypoints", "/workers", "/schedules"):
                await page.goto(dashboard + path)
                await expect(page.get_by_text("<img src=x").first).to_be_visible()
                if path != "/workers":
                    await expect(page.get_by_text("🦆 {{ 1 + 1 }}").first).to_be_visible()
                assert (await page.title()).endswith("· bucketq")
                wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{path} is {wide} pixels too wide"
            await page.goto(f"{dashboard}/dead")
            await page.get_by_role("table", name="Dead letters").get_by_role("link", name="🦆").first.click()
            await expect(page.get_by_role("table", name="Dead jobs").locator("tbody tr")).to_have_count(1)


async def test_an_address_that_makes_no_sense_is_no_error_page(chromium, queue, dashboard):
    async with opened(chromium) as page:
        await page.goto(f"{dashboard}/jobs?status=wrong&before=-1&page=here")
        await expect(page.get_by_text("is no page token of this queue")).to_be_visible()
        await page.goto(f"{dashboard}/jobs?status=wrong&before=many")
        await expect(page.get_by_text("1 to 50 of")).to_be_visible()
