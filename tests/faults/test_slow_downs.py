"""A storage that takes few writes and answers the others with 429: the queue finds the pace it allows."""

import asyncio
import random
from contextlib import suppress

import pytest

from bucketq import BrokerQueue, BucketQError, OutcomeUnknownError, Settings, ThrottledStorage
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

CALLERS = 100


def queue_on(storage, **settings):
    # All in queue.json: whoever counts its writes wants no others.
    quiet = {"archive": False, "hot_jobs_max": 10**9, "hot_bytes_max": 10**7}
    return BrokerQueue(storage, settings=Settings(**quiet, **settings), clock=VirtualClock())


def now_s():
    return asyncio.get_running_loop().time()


async def enqueue_for(seconds, q, callers=CALLERS):
    """Let callers enqueue one job after the other; return the ids of all that they were told of."""
    until_s, told = now_s() + seconds, []

    async def call():
        while now_s() < until_s:
            told.append((await q.enqueue("mail")).id)

    await asyncio.gather(*(call() for _ in range(callers)))
    return told


async def check_jobs(storage, told):
    stored = [job["id"] for job in (await storage.document())["jobs"]]
    assert len(set(told)) == len(told)
    assert sorted(stored) == sorted(told), "each that was told is there once, and no other"


@pytest.mark.parametrize("latency_s", [0.02, 0.3])
@virtual_time
async def test_one_write_a_second_is_found_and_kept(latency_s):
    storage = FaultyStorage()
    storage.write_every_s, storage.latency_s = 1.0, latency_s
    async with queue_on(storage) as q:
        told = await enqueue_for(300, q)
    await check_jobs(storage, told)
    assert storage.refused < 0.1 * storage.writes, "few writes are wasted"
    assert len(storage.versions) > 0.85 * now_s(), "and few seconds"


@virtual_time
async def test_when_the_storage_takes_more_again_so_does_the_queue():
    storage = FaultyStorage()
    storage.write_every_s, storage.latency_s = 1.0, 0.02
    async with queue_on(storage) as q:
        told = await enqueue_for(60, q)
        storage.write_every_s = 0.0
        told += await enqueue_for(40, q, callers=5)
        writes = storage.writes
        told += await enqueue_for(2, q, callers=5)
        assert storage.writes - writes > 80, "a commit follows the other, each of 20 ms"
    await check_jobs(storage, told)


@virtual_time
async def test_nobody_hears_of_slow_downs_while_commits_land():
    storage = FaultyStorage()
    storage.write_every_s = 25.0
    async with queue_on(storage, retry_for_s=30) as q:
        told = await enqueue_for(300, q)
    await check_jobs(storage, told)
    assert len(storage.versions) >= 10


@pytest.mark.parametrize("seed", range(3))
@virtual_time
async def test_nor_while_those_of_others_do(seed):
    storage = FaultyStorage()
    storage.write_every_s, storage.latency_s = 1.0, 0.05
    async with queue_on(storage) as ours, queue_on(storage) as theirs, queue_on(storage) as others:
        every = await asyncio.gather(*(enqueue_for(200, q, 20) for q in (ours, theirs, others)))
    assert all(every), "each has its turn"
    await check_jobs(storage, [job_id for told in every for job_id in told])


class Rough(FaultyStorage):
    """Refuses half of the writes, at random, while it is rough."""

    is_rough = True

    def __init__(self):
        super().__init__()
        self.random = random.Random(1)
        self.latency_s = 0.06

    async def write(self, content, if_match=None):
        if self.is_rough and self.random.random() < 0.5:
            self.faults.append("slow down")
        return await super().write(content, if_match)


@virtual_time
async def test_the_pace_does_not_outlive_a_slow_down():
    storage = Rough()
    queues = []

    async def write(number):
        async with queue_on(storage) as q:
            queues.append(q)
            while now_s() < 100:
                with suppress(BucketQError):
                    await (q.resume(f"mail-{number}") if now_s() % 2 < 1 else q.pause(f"mail-{number}"))
                await asyncio.sleep(storage.random.uniform(0.2, 0.8))

    async with asyncio.TaskGroup() as writers:
        for number in range(6):
            writers.create_task(write(number))
        await asyncio.sleep(60)
        assert max(q._group._committer.interval_s for q in queues) > 0.2
        storage.is_rough = False
        await asyncio.sleep(35)
        assert max(q._group._committer.interval_s for q in queues) < 0.2


@virtual_time
async def test_a_storage_that_takes_nothing_is_told_of_in_time():
    storage = FaultyStorage()
    async with queue_on(storage, retry_for_s=30) as q:
        await q.enqueue("mail")
        storage.write_every_s = float("inf")
        began_s = now_s()
        with pytest.raises(OutcomeUnknownError, match="429"):
            await q.enqueue("mail")
        assert now_s() - began_s == pytest.approx(30, abs=1)


@virtual_time
async def test_a_throttle_that_knows_the_limit_wastes_no_write():
    inner = FaultyStorage()
    inner.write_every_s, inner.latency_s = 1.0, 0.02
    storage = ThrottledStorage(inner, writes_per_s=0.95, burst=1, clock=VirtualClock())
    async with queue_on(storage) as q:
        told = await enqueue_for(300, q)
    await check_jobs(inner, told)
    assert inner.refused == storage.stats.writes.refused_total == 0
    assert len(inner.versions) > 0.9 * now_s()
