"""Signing in: who gets in by which token, what they may do, and what happens when the token ends."""

import re

import pytest
from playwright.async_api import expect

import bucketq
from bucketq.broker.tokens import new_token
from tests.acceptance.served import served
from tests.dashboard.browser import eventually, need_chromium, opened

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What Chromium says of an answer with this status.
REFUSED = ("401",)


class Tokens:
    """A file of tokens, and their secrets by name."""

    def __init__(self, path):
        self.path = path
        self.secrets = {}
        self._lines = {}

    def add(self, name, *roles):
        self.secrets[name], token = new_token(name, roles)
        self._lines[name] = token.line
        self._write()

    def revoke(self, name):
        del self._lines[name]
        self._write()

    def _write(self):
        self.path.write_text("\n".join(self._lines.values()) + "\n")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    tokens = Tokens(tmp_path_factory.mktemp("tokens") / "tokens")
    tokens.add("ann", "admin")
    tokens.add("vic", "viewer")
    return tokens


@pytest.fixture(scope="module")
def guarded(tokens, tmp_path_factory):
    """A broker with a dashboard, which wants tokens."""
    need_chromium()
    url = f"file://{tmp_path_factory.mktemp('queue')}/queue.json"
    with served(url, "--dashboard", "--tokens-file", str(tokens.path)) as broker:
        broker.wait_for("leading")
        yield broker


async def sign_in(page, broker, token, path="/"):
    await page.goto(f"http://{broker.http}/dashboard{path}")
    await expect(page).to_have_url(re.compile("/dashboard/sign-in"))
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()


async def is_known(broker, token):
    async with bucketq.connect(f"grpc://{broker.address}", token=token) as queue:
        try:
            return await queue.stats()
        except bucketq.UnauthenticatedError:
            return None


async def test_a_token_lets_in_and_is_seen_nowhere(chromium, guarded, tokens):
    async with opened(chromium, allowed=REFUSED) as page:
        await sign_in(page, guarded, "bq_wrong", "/brokers?x=1")
        await expect(page.get_by_role("alert")).to_contain_text("not known here")
        await page.get_by_label("Token").fill(tokens.secrets["ann"])
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(f"http://{guarded.http}/dashboard/brokers?x=1")
        await expect(page.get_by_text("ann: admin")).to_be_visible()
        assert tokens.secrets["ann"] not in await page.content()
        [cookie] = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/dashboard")
        assert tokens.secrets["ann"] not in cookie["value"]
        kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert tokens.secrets["ann"] not in kept
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        await page.goto(f"http://{guarded.http}/dashboard/")
        await expect(page.get_by_label("Token")).to_be_visible()
    assert not any(secret in str(guarded.log) for secret in tokens.secrets.values())


async def test_whose_token_is_revoked_is_led_to_signing_in_within_moments(chromium, guarded, tokens):
    tokens.add("eve", "admin")
    async with opened(chromium, allowed=REFUSED) as page:
        await eventually(lambda: is_known(guarded, tokens.secrets["eve"]))
        await sign_in(page, guarded, tokens.secrets["eve"])
        await expect(page.get_by_text("eve: admin")).to_be_visible()
        tokens.revoke("eve")
        await expect(page).to_have_url(re.compile("sign-in"))
        await expect(page.get_by_role("alert")).to_contain_text("expired, or was revoked")
        await page.goto(f"http://{guarded.http}/dashboard/jobs")
        await expect(page.get_by_label("Token")).to_be_visible()
