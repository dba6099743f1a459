"""The watch: one look for all, none for nobody, and what was seen stays when the storage is away."""

import asyncio
from datetime import timedelta

from bucketq import DirectQueue, InMemoryStorage, StorageError
from bucketq.clock import SystemClock
from bucketq.codec import encode
from bucketq.dashboard.history import POINTS_MAX
from bucketq.dashboard.watch import Pulse, Watch
from bucketq.election import Leader
from bucketq.state import QueueState
from tests.live.watched import NOON, FrozenClock, WatchedQueue


class Counted(InMemoryStorage):
    """Counts reads, and fails them while it is away."""

    def __init__(self):
        super().__init__()
        self.reads = 0
        self.is_away = False

    async def read_if_changed(self, etag):
        self.reads += 1
        if self.is_away:
            raise StorageError("the bucket is away")
        return await super().read_if_changed(etag)


class Page:
    """Somebody who is told."""

    def __init__(self):
        self.told = asyncio.Queue()

    def __call__(self):
        self.told.put_nowait(None)

    async def until(self, look):
        """Wait to be told, until it is so."""
        await asyncio.wait_for(self.told.get(), 10)
        while not look():
            await asyncio.wait_for(self.told.get(), 10)


async def test_all_pages_share_a_look_and_without_one_nobody_looks():
    storage = Counted()
    watch, pages = Watch(storage), [Page() for _ in range(10)]
    for page in pages:
        watch.join(page, page)
    for page in pages:
        await page.until(lambda: watch.look)
    assert storage.reads == 1
    for page in pages:
        watch.leave(page)
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "watch" in task.get_name()]
    await watch.close()


async def test_what_has_not_changed_is_not_decoded_again():
    storage, page = Counted(), Page()
    watch = Watch(storage)
    watch.join(page, page)
    await page.until(lambda: watch.look)
    before = watch.look
    watch.look_soon()
    await page.until(lambda: watch.look is not before)
    assert watch.look.state is before.state
    await DirectQueue(storage).enqueue("mail")
    await page.until(lambda: watch.look.state.stats.queued == 1)
    await watch.close()


async def test_a_storage_that_is_away_leaves_the_last_look_with_the_reason():
    storage, page = Counted(), Page()
    await DirectQueue(storage).enqueue("mail")
    watch = Watch(storage)
    watch.join(page, page)
    await page.until(lambda: watch.look)
    storage.is_away = True
    await page.until(lambda: watch.trouble)
    assert "the bucket is away" in watch.trouble.reason
    assert watch.look.state.stats.queued == 1
    storage.is_away = False
    await page.until(lambda: watch.trouble is None)
    await watch.close()


async def test_the_history_is_of_the_last_minutes_and_no_longer():
    watch = Watch(InMemoryStorage())
    await watch.fresh()
    for _ in range(POINTS_MAX + 5):
        watch.history.add(watch.look, watch.trend)
    assert len(watch.history.points) == POINTS_MAX
    assert watch.history.since(watch.history.points[-1].at_ms) == []


async def test_what_nobody_has_looked_at_is_a_gap_and_what_is_old_is_dropped():
    queue = WatchedQueue()
    watch = Watch(queue.storage, queue.looks_by)
    async with queue:
        await watch.fresh()
        queue.wait(120)
        await queue.enqueue_many("mail", [b""] * 600)
        await queue.kill("mail")
        await watch.fresh()
        _, gap, now = watch.history.points
        assert (gap.queued, gap.enqueued_per_s, gap.died) == (None, None, None)
        assert (now.queued, now.enqueued_per_s, now.died) == (599, 0.0, 0), "it was not in this second"
        queue.wait(2)
        await queue.enqueue_many("mail", [b""] * 20)
        await watch.fresh()
        assert watch.history.points[-1].enqueued_per_s == 10.0
        queue.wait(POINTS_MAX)
        await watch.fresh()
        assert [point.queued for point in watch.history.points] == [619, None, 619]


async def test_beats_that_nobody_looked_for_do_not_make_a_heart_slow():
    clock, storage = FrozenClock(NOON), InMemoryStorage()
    watch, state = Watch(storage, clock), QueueState()
    etag = None
    for _ in range(4):
        clock.move_to(clock.now() + timedelta(minutes=5))
        state.leader = Leader(epoch=1, broker="b", address="a", beat_at=clock.now())
        state.version += 1
        etag = await storage.write(encode(state), etag)
        await watch.fresh()
    assert not watch.pulse.is_silent(watch.now_s + 4)
    assert watch.pulse.is_silent(watch.now_s + 6)


def test_a_leader_is_silent_when_it_misses_the_beats_that_are_usual():
    now = SystemClock().now()
    pulse = Pulse()

    def beat(number, at_s, epoch=1):
        pulse.observe(
            Leader(epoch=epoch, broker="b", address="a", beat_at=now.replace(microsecond=number)), at_s
        )

    beat(0, 80.0)
    beat(1, 80.5)
    assert not pulse.is_silent(83.5), "the first look came in the middle of a beat"
    beat(2, 100.0, epoch=3)
    assert not pulse.is_silent(104.0)
    assert pulse.is_silent(106.0)
    for number in range(2, 6):
        beat(number, 90.0 + 10 * number, epoch=3)
    assert not pulse.is_silent(155.0)
    assert pulse.is_silent(157.0)
    beat(9, 170.0, epoch=4)
    assert not pulse.is_silent(174.0)
    assert pulse.silent_s(173.0) == 3.0
