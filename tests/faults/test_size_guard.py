"""The size guard: a full queue.json takes no new work, and lets running work finish."""

import pytest

from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, QueueFullError, Settings
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

LIMIT = 20_000


@pytest.fixture(params=[BrokerQueue, DirectQueue], ids=["broker", "direct"])
def open_queue(request):
    def open_queue(storage, **settings):
        settings = Settings(**{"queue_bytes_max": LIMIT, "hot_bytes_max": LIMIT} | settings)
        return request.param(storage, settings=settings, clock=VirtualClock())

    return open_queue


class OneObject:
    """A storage with nothing beside the queue, so that nothing overflows into segments."""

    def __init__(self):
        self._inner = InMemoryStorage()
        self.read, self.write = self._inner.read, self._inner.write


async def fill(q):
    with pytest.raises(QueueFullError):
        while True:
            await q.enqueue("mail", b"1")


async def claim_all(q):
    """Claim one job after the other until there is no room for another claim."""
    claimed = []
    with pytest.raises(QueueFullError):
        while jobs := await q.dequeue():
            claimed += jobs
    return claimed


@virtual_time
async def test_a_full_queue_refuses_new_work_and_nothing_of_it_is_left(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, payload_inline_max=300) as q:
        await fill(q)
        full = await storage.inner.read()
        assert LIMIT - 500 < len(full[0]) <= LIMIT
        large = b"x" * 301
        for refused in (
            q.enqueue("mail", b"1"),
            q.enqueue("mail", large),
            q.enqueue_many("mail", [b"1"] * 100),
            q.enqueue_many("mail", [large] * 10),
            q.enqueue_many("mail", range(3000)),
        ):
            with pytest.raises(QueueFullError, match=f"would pass {LIMIT} bytes"):
                await refused
        for payload in (b"1", large):
            with pytest.raises(QueueFullError):
                async with q.transaction() as t:
                    t.enqueue("mail", payload)
        assert await storage.inner.read() == full
        assert storage.names == set()


@virtual_time
async def test_running_work_of_a_full_queue_can_finish_and_makes_room(open_queue):
    storage = OneObject()
    async with open_queue(storage, stale_after_s=30) as q:
        await q.enqueue_many("mail", [b"1"] * 10)
        claimed = await q.dequeue(batch_size=10)
        await fill(q)
        claimed += await claim_all(q)
        full = await storage.read()
        with pytest.raises(QueueFullError, match=f"{len(claimed)} jobs in progress"):
            await q.dequeue()
        assert await storage.read() == full, "a refused claim changes nothing"
        await q.heartbeat(claimed[0])
        await q.nack(claimed[0], "a reason that takes more room than the claim did" * 10)
        with pytest.raises(QueueFullError):
            await q.enqueue("mail", b"1")
        await q.ack(claimed[1])
        assert await q.ack_many(claimed[2:]) == []
        await q.enqueue("mail", b"1")
        assert len(await q.dequeue()) == 1
        assert (await q.read_state()).is_conserved()


@virtual_time
async def test_a_batch_takes_as_many_jobs_as_there_is_room_for(open_queue):
    async with open_queue(FaultyStorage()) as q:
        await q.enqueue_many("mail", [b"1"] * 90)
        jobs = await q.dequeue(batch_size=90)
        assert 10 < len(jobs) < 90
        jobs += await claim_all(q)
        assert await q.ack_many(jobs) == []
        assert len(await q.dequeue(batch_size=90)) == 90 - len(jobs)


@pytest.mark.parametrize("spare", range(0, 200, 20))
@virtual_time
async def test_a_queue_full_of_waiting_jobs_is_worked_off(open_queue, spare):
    limit = 5000 + spare
    async with open_queue(FaultyStorage(), queue_bytes_max=limit, hot_bytes_max=limit) as q:
        await fill(q)
        waiting = (await q.stats()).queued
        for _ in range(waiting):
            [job] = await q.dequeue()
            await q.ack(job)
        assert (await q.stats()).completed_total == waiting


@virtual_time
async def test_waiting_jobs_that_can_overflow_fill_no_queue(open_queue):
    async with open_queue(FaultyStorage(), hot_bytes_max=LIMIT // 4) as q:
        for number in range(1000):
            await q.enqueue("mail", number)
        assert (await q.stats()).queued == 1000
