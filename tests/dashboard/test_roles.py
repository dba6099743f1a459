"""Who may do what: a viewer sees no buttons, and what a button would send is refused; a producer cancels."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

import bucketq
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import new_token
from tests.acceptance.served import served
from tests.dashboard.browser import need_chromium, opened
from tests.dashboard.scene import fill

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACTIONS = ("Pause", "Resume", "Limit", "Redrive", "Discard", "Cancel the job", "Remove", "Add a schedule")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """A secret of each role, and the file of their tokens."""
    need_chromium()
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    secrets = {}
    for role in ("viewer", "producer", "admin"):
        secrets[role], made = new_token(role, [role])
        TokenFile(str(file)).add(made)
    return secrets, file


@pytest.fixture(scope="module")
def shop(tokens, tmp_path_factory):
    url = f"file://{tmp_path_factory.mktemp('shop')}/queue.json"
    with served(url, "--dashboard", "--tokens-file", str(tokens[1])) as broker:
        broker.wait_for("leading")
        yield broker


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def queue(shop, tokens):
    async with bucketq.connect(f"grpc://{shop.address}", token=tokens[0]["admin"]) as queue:
        queue.ids = await fill(queue, waiting=10)
        yield queue


async def sign_in(page, shop, secret):
    await page.goto(f"http://{shop.http}/dashboard/")
    await page.get_by_label("Token").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


async def seen_actions(page, shop, ids):
    """The buttons of all pages."""
    seen = set()
    for path in ("/entrypoints", f"/jobs/{ids['dead']}", f"/jobs/{ids['queued']}", "/dead", "/schedules"):
        await page.goto(f"http://{shop.http}/dashboard{path}")
        await expect(page.locator(".bq-table tbody tr, .bq-job-head").first).to_be_visible()
        told = await page.get_by_role("button").all_inner_texts()
        seen |= {action for action in ACTIONS for text in told if action in text}
    return seen


async def test_a_viewer_sees_everything_and_no_button(chromium, queue, shop, tokens):
    async with opened(chromium) as page:
        await sign_in(page, shop, tokens[0]["viewer"])
        assert await seen_actions(page, shop, queue.ids) == set()
        # Whoever sends what a button would have sent is not heard.
        await page.goto(f"http://{shop.http}/dashboard/entrypoints")
        await expect(page.locator("tbody tr", has_text="send_email")).to_be_visible()
        await page.evaluate(
            """() => {
                const id = Number(document.querySelector('.bq-table-box').id.slice(1));
                getElement(id).$emit('act', { action: 'pause', id: 'send_email' });
            }"""
        )
        await page.goto(f"http://{shop.http}/dashboard/jobs")
        await expect(page.locator("tbody tr").first).to_be_visible()
        assert "send_email" not in (await queue.limits()).paused


async def test_a_running_job_is_drawn_anew_when_it_changes_and_not_when_others_do(
    chromium, queue, shop, tokens
):
    async with opened(chromium) as page:
        await sign_in(page, shop, tokens[0]["viewer"])
        overview = await page.context.new_page()
        await overview.goto(f"http://{shop.http}/dashboard/")
        queued = overview.locator(".bq-card", has_text="queued").locator(".bq-card-value").first
        await page.goto(f"http://{shop.http}/dashboard/jobs/{queue.ids['running']}")
        badge = page.locator(".bq-badge")
        await expect(badge).to_have_text("running")
        await badge.evaluate("badge => badge.dataset.seen = 'before'")
        for _ in range(3):
            before = await queued.inner_text()
            await queue.enqueue("other")
            await expect(queued).not_to_have_text(before)
        await expect(badge).to_have_attribute("data-seen", "before")
        await queue.cancel(queue.ids["running"])
        await expect(badge).to_have_text("cancelling")


async def test_a_producer_cancels_and_schedules_and_no_more(chromium, queue, shop, tokens):
    async with opened(chromium) as page:
        await sign_in(page, shop, tokens[0]["producer"])
        assert await seen_actions(page, shop, queue.ids) == {"Cancel the job", "Remove", "Add a schedule"}
        await page.goto(f"http://{shop.http}/dashboard/jobs/{queue.ids['queued']}")
        await page.get_by_role("button", name="Cancel the job").click()
        await page.locator(".q-dialog").get_by_role("button", name="Cancel the job").click()
        await expect(page.locator(".bq-badge")).to_have_text("cancelled")


async def test_an_admin_has_every_button(chromium, queue, shop, tokens):
    async with opened(chromium) as page:
        await sign_in(page, shop, tokens[0]["admin"])
        queue.ids["queued"] = (await queue.page(size=1, status="queued")).jobs[0].id
        assert await seen_actions(page, shop, queue.ids) == set(ACTIONS)
