"""The dashboard alone: before a storage, before brokers with tokens, and beyond this machine."""

import asyncio
import os
import socket
import subprocess
import sys

import aiohttp
import pytest
from playwright.async_api import expect

import bucketq
from tests.acceptance.served import served
from tests.dashboard.alone import shown
from tests.dashboard.browser import opened
from tests.dashboard.test_sign_in import Tokens

pytestmark = pytest.mark.asyncio(loop_scope="session")


def queued(page):
    return page.locator(".bq-card", has_text="queued").locator(".bq-card-value")


async def test_a_storage_is_shown_and_acted_on(chromium, tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with shown(url) as address:
        async with opened(chromium) as page, bucketq.connect(url) as queue:
            await page.goto(address)
            await expect(page.get_by_text("Nothing has been enqueued yet")).to_be_visible()
            await queue.enqueue("mail")
            await expect(queued(page)).to_have_text("1")
            await page.goto(f"{address}/brokers")
            await expect(page.get_by_text("No broker leads")).to_be_visible()
            await page.goto(f"{address}/entrypoints")
            await page.get_by_role("button", name="Pause the queue").click()
            await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
            await expect(page.get_by_text("The queue is paused.")).to_be_visible()
            await expect(page.locator(".bq-state")).to_contain_text("paused")
            assert (await queue.limits()).is_paused
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


async def test_before_brokers_a_visitor_is_what_their_token_says(chromium, tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("vic", "viewer")
    tokens.add("ann", "admin")
    url = f"file://{tmp_path}/queue.json"
    with served(url, "--tokens-file", str(tokens.path)) as broker:
        broker.wait_for("leading")
        async with bucketq.connect(f"grpc://{broker.address}", token=tokens.secrets["ann"]) as queue:
            await queue.enqueue("mail")
        with shown(f"grpc://{broker.address}") as address:
            async with opened(chromium) as page:
                await page.goto(address)
                await page.get_by_label("Token").fill(tokens.secrets["vic"])
                await page.get_by_role("button", name="Sign in").click()
                await expect(page.get_by_text("vic: viewer")).to_be_visible()
                await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
                await expect(queued(page)).to_have_text("1")
                tokens.revoke("vic")
                await expect(page.get_by_role("alert")).to_contain_text("expired, or was revoked")
        with shown(f"grpc://{broker.address}", BUCKETQ_TOKEN=tokens.secrets["ann"]) as address:
            async with opened(chromium) as page:
                await page.goto(address)
                await expect(page.get_by_text("ann: admin")).to_be_visible()
                await expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


async def test_beyond_this_machine_it_wants_tokens_or_to_be_told(tmp_path):
    def run(*options):
        command = [sys.executable, "-m", "bucketq", "dashboard", f"file://{tmp_path}/queue.json", *options]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ}, timeout=60)

    done = await asyncio.to_thread(run, "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "--tokens-file" in done.stderr
    nobody = tmp_path / "tokens"
    nobody.write_text("# nobody yet\n")
    done = await asyncio.to_thread(run, "--port", "0", "--tokens-file", nobody)
    assert done.returncode == 2
    assert "make one with `bucketq token new`" in done.stderr


async def test_without_tokens_it_answers_to_the_names_of_its_machine_and_to_no_others(tmp_path):
    with shown(f"file://{tmp_path}/queue.json", "--host", "0.0.0.0", "--insecure") as address:
        port = address.split(":")[2].split("/")[0]

        async def answer_to(**headers):
            async with session.get(f"http://127.0.0.1:{port}/dashboard/", headers=headers) as response:
                return response.status, await response.text()

        async with aiohttp.ClientSession() as session:
            for name in ("127.0.0.1", "localhost", socket.gethostname()):
                assert (await answer_to(Host=f"{name}:{port}"))[0] == 200
            status, told = await answer_to(Host=f"rebound.example:{port}")
            assert status == 403
            assert "this dashboard is not known as" in told
            # By the options that this command has.
            assert "see --host" in told
            status, told = await answer_to(Origin="https://evil.example")
            assert status == 403
            assert "may not talk to this dashboard; open it by its own address" in told


TWO = """
import asyncio, sys
from bucketq.dashboard.alone import alone

async def show():
    async with alone(sys.argv[1]), alone(sys.argv[2]):
        pass

asyncio.run(show())
"""


async def test_a_second_dashboard_in_a_process_is_refused_and_does_not_take_over_the_first(tmp_path):
    urls = [f"file://{tmp_path}/{name}.json" for name in ("one", "two")]
    command = [sys.executable, "-c", TWO, *urls]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert "ConfigurationError: a process shows one dashboard" in done.stderr
