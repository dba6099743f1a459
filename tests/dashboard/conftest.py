"""One browser for all tests of this process, and one broker for those of a module."""

import pytest
import pytest_asyncio

from tests.acceptance.served import served
from tests.dashboard.browser import browser, need_chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium():
    async with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker with a dashboard, without tokens."""
    need_chromium()
    with served(f"file://{tmp_path_factory.mktemp('queue')}/queue.json", "--dashboard") as broker:
        broker.wait_for("leading")
        yield broker


@pytest.fixture(scope="module")
def dashboard(broker):
    """The address of its dashboard."""
    return f"http://{broker.http}/dashboard"
