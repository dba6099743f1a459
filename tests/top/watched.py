"""A queue whose ids and times are the same in every run, and `top` looking at it."""

import html
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random

from bucketq import BrokerQueue, InMemoryStorage
from bucketq.mint import Mint
from bucketq.retry import GiveUp
from bucketq.testing.still_clock import StillClock
from bucketq.top.look import Looker
from bucketq.top.screen import Top

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
_TEXT = re.compile(r'<text[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')
_CHAR_WIDTH = 12.2


class FrozenClock(StillClock):
    """A clock by which nothing takes any time, until the test moves it."""

    def monotonic_s(self):
        return self.now().timestamp()


class WatchedQueue(BrokerQueue):
    """A queue with its clock, and one for whoever looks."""

    def __init__(self, storage=None, settings=None):
        self.clock, self.looks_by = StillClock(NOON), FrozenClock(NOON)
        super().__init__(
            storage or InMemoryStorage(), settings=settings, clock=self.clock, mint=Mint(Random(7))
        )

    def looker(self):
        return Looker(self.storage, self.looks_by)

    def wait(self, seconds):
        """Let some time pass."""
        for clock in (self.clock, self.looks_by):
            clock.move_to(clock.now() + timedelta(seconds=seconds))

    async def kill(self, entrypoint, error="ConnectionError: refused", trace=None):
        """Let the next job of an entrypoint fail for good."""
        [job] = await self.dequeue(entrypoint)
        await self.nack(job, error=error, trace=trace, retry=lambda failure: GiveUp())
        return job


@asynccontextmanager
async def watching(queue, size=(80, 24), every_s=3600):
    """A pilot of `top`, which looks again when the test waits for something to be seen."""
    top = Top(queue, every_s=every_s, clock=getattr(queue, "looks_by", None))
    async with top.run_test(size=size) as pilot:
        await until_seen(pilot, "read in")
        yield pilot


async def until_seen(pilot, text, is_there=True):
    """Look until a text stands on the screen, or does not any more; the test's time limit is the limit."""
    while (text in seen(pilot)) is not is_there:
        await pilot.app.look()
        await pilot.pause(0.005)


async def until_told(pilot, text):
    """Wait, without a look, until a text stands on the screen."""
    while text not in seen(pilot):
        await pilot.pause(0.005)


def seen(pilot):
    """The text on the screen."""
    lines = {}
    for x, y, text in _TEXT.findall(pilot.app.export_screenshot()):
        line = lines.get(y, "")
        lines[y] = line.ljust(round(float(x) / _CHAR_WIDTH)) + html.unescape(text).replace("\xa0", " ")
    return "\n".join(lines.values())
