"""The points of the charts: what failed, died or was cancelled between looks, and how often was written."""

import pytest

from bucketq.dashboard.history import History
from bucketq.live.trend import Trend
from tests.live.watched import WatchedQueue


class Watcher:
    """Looks at a queue, and keeps what it has seen."""

    def __init__(self, queue):
        self.history, self._trend, self._looker = History(), Trend(), queue.looker()

    async def look(self):
        look = await self._looker.look()
        self._trend.add(look)
        self.history.add(look, self._trend)
        last = self.history.points[-1]
        return last.failed, last.died, last.cancelled


async def fail(queue):
    [job] = await queue.dequeue("mail")
    await queue.nack(job, "ConnectionError: refused")


async def test_what_failed_died_or_was_cancelled_is_told_once():
    async with WatchedQueue() as queue:
        watcher = Watcher(queue)
        for _ in range(3):
            await queue.enqueue("mail")
        assert await watcher.look() == (0, 0, 0)
        await fail(queue)
        assert await watcher.look() == (1, 0, 0)
        await queue.cancel(await queue.enqueue("fax"))
        await queue.kill("mail")
        assert await watcher.look() == (0, 1, 1)
        assert await watcher.look() == (0, 0, 0)


async def test_what_failed_while_nobody_looked_is_not_told():
    async with WatchedQueue() as queue:
        watcher = Watcher(queue)
        await queue.enqueue("mail")
        await watcher.look()
        await fail(queue)
        watcher.history.interrupt()
        assert await watcher.look() == (0, 0, 0)
        await fail(queue)
        assert await watcher.look() == (1, 0, 0)


async def test_commits_are_counted_by_whomever_they_were_made():
    async with WatchedQueue() as queue:
        watcher = Watcher(queue)
        assert watcher.history.commits_per_s == 0
        await watcher.look()
        assert watcher.history.commits_per_s == 0
        for _ in range(10):
            await queue.enqueue("mail")
        queue.wait(4)
        await watcher.look()
        assert watcher.history.commits_per_s == pytest.approx(10 / 4)
