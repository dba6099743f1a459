"""Each tick of a schedule is fired once, in time, whoever is there to do it and whatever goes wrong."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, Settings
from bucketq.broker.broker import Beats, Broker
from bucketq.codec import decode
from bucketq.testing.virtual_time import Process, VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAULTS = ["conflict", "lost answer", "lost, retried", "lost request", "late", "slow down"]


def queue(storage, skew_s=0.0, **settings):
    clock = VirtualClock(timedelta(seconds=skew_s))
    return BrokerQueue(storage, settings=Settings(**settings), clock=clock)


async def fired(storage):
    """The ticks whose jobs are, or were, in the queue, in seconds since the start."""
    runs = {}
    for content in storage.versions:
        for job in decode(content).jobs:
            assert runs.setdefault(job.id, job.run_at) == job.run_at
    state = decode((await storage.read())[0])
    assert state.is_conserved()
    assert state.stats.enqueued_total == len(runs), "no tick was fired twice"
    return sorted((run_at - START).total_seconds() for run_at in runs.values())


def minutes(first, last):
    return [60.0 * number for number in range(first, last + 1)]


@virtual_time
async def test_an_open_queue_fires_though_nobody_dequeues():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("beat", "mail", every=60)
        writes = storage.writes
        await asyncio.sleep(599)
        [found] = await q.schedules()
        assert (found.last_at, found.next_at) == (START + 540 * SECOND, START + 600 * SECOND)
        assert storage.writes - writes == 9, "and writes for nothing else"
    await asyncio.sleep(600)
    assert await fired(storage) == minutes(1, 9), "a closed one does not"


@virtual_time
async def test_a_schedule_far_away_costs_nothing_until_it_is_due():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("weekly", "mail", cron="0 0 * * THU")
        reads, writes = storage.reads, storage.writes
        await asyncio.sleep(6 * 86400)
        assert (storage.reads, storage.writes) == (reads, writes)
        await asyncio.sleep(2 * 86400)
    assert await fired(storage) == [7 * 86400.0]


@virtual_time
async def test_a_waiting_worker_gets_the_job_when_its_tick_comes():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("beat", "mail", every=60)
        other = asyncio.create_task(q.dequeue("other", wait=100))
        [job] = await q.dequeue("mail", wait=100)
        assert asyncio.get_running_loop().time() == pytest.approx(60, abs=0.1)
        assert job.run_at == START + 60 * SECOND
        assert await other == []


@virtual_time
async def test_direct_queues_fire_when_they_dequeue():
    storage = FaultyStorage()
    one, other = (DirectQueue(storage, clock=VirtualClock()) for _ in range(2))
    await one.schedule("beat", "mail", every=60)
    await asyncio.sleep(61)
    claimed = await asyncio.gather(*(q.dequeue(batch_size=5) for q in (one, other) for _ in range(3)))
    assert sum(map(len, claimed)) == 1
    [job] = await other.dequeue(wait=100)
    assert job.run_at == START + 120 * SECOND


@pytest.mark.parametrize("seed", range(5))
@virtual_time
async def test_several_queues_with_wrong_clocks_fire_each_tick_once(seed):
    storage = FaultyStorage()
    storage.latency_s = 0.05
    async with queue(storage) as one, queue(storage, 20) as ahead, queue(storage, -20) as behind:
        await one.schedule("beat", "mail", every=60, missed="all")
        await ahead.schedule("beat", "mail", every=60, missed="all")
        done = []

        async def work(q):
            async with asyncio.timeout(610):
                while True:
                    for job in await q.dequeue(wait=1000):
                        done.append(job.id)
                        await q.ack(job)

        await asyncio.gather(*(work(q) for q in (one, ahead, behind)), return_exceptions=True)
    ticks = await fired(storage)
    assert ticks[:10] == minutes(1, 10)
    assert len(done) == len(set(done)) >= 10


@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_a_tick_whose_write_goes_wrong_is_fired_once(fault):
    storage = FaultyStorage()
    async with queue(storage) as q, queue(storage) as rival:
        await q.schedule("beat", "mail", every=60)
        await rival.stats()
        for _ in range(5):
            storage.faults.extend([fault] * 2)
            await asyncio.sleep(60)
        await asyncio.sleep(20)
    assert await fired(storage) == minutes(1, 5)


@virtual_time
async def test_after_an_outage_the_newest_missed_tick_is_made_up_for_without_being_asked():
    storage = FaultyStorage()
    async with queue(storage, retry_for_s=5) as q:
        await q.schedule("beat", "mail", every=60)
        await asyncio.sleep(30)
        storage.is_down = True
        await asyncio.sleep(300)
        storage.is_down = False
        await asyncio.sleep(25)
    assert await fired(storage) == [300.0]


@virtual_time
async def test_many_missed_ticks_are_made_up_for_one_part_after_the_other():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("beat", "mail", every=1, missed="all")
    await asyncio.sleep(2500)
    async with queue(storage) as q:
        await q.stats()
        await asyncio.sleep(5)
        assert (await q.stats()).enqueued_total == pytest.approx(2505, abs=2)


BEATS = Beats(interval_s=3, timeout_s=10)


def broker(storage, name):
    one = Broker(storage, Settings(), BEATS, VirtualClock())
    one.address = name
    return one


async def until(condition):
    while not condition():
        await asyncio.sleep(0.1)


@virtual_time
async def test_a_leading_broker_fires_alone_and_its_follower_goes_on():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("beat", "mail", every=60)
    brokers = [broker(storage, name) for name in ("a", "b")]
    processes = [Process(name) for name in ("a", "b")]
    for process, one in zip(processes, brokers, strict=True):
        process.start(one.run())
        await until(lambda: any(one.is_leading for one in brokers))
    await asyncio.sleep(60.5 - asyncio.get_running_loop().time())
    assert await fired(storage) == minutes(1, 1), "in time"
    await asyncio.sleep(140)
    assert await fired(storage) == minutes(1, 3)
    processes[0].kill()
    asyncio.get_running_loop().call_later(1e6, processes[0].bury)
    await until(lambda: brokers[1].is_leading)
    await asyncio.sleep(125)
    assert await fired(storage) == minutes(1, 5)
    brokers[1].stop()
    await until(lambda: not brokers[1].is_leading)


@virtual_time
async def test_where_a_broker_leads_embedded_queues_let_it_go_first_and_step_in_if_it_is_gone():
    storage = FaultyStorage()
    async with queue(storage) as q:
        await q.schedule("beat", "mail", every=60)
        process, one = Process("a"), broker(storage, "a")
        process.start(one.run())
        await until(lambda: one.is_leading)
        await q.stats()
        await asyncio.sleep(185)
        process.kill()
        asyncio.get_running_loop().call_later(1e6, process.bury)
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(240 - now_s + 4)
        assert (await fired(storage))[-1] == 180.0, "it might still be there"
        await asyncio.sleep(2)
        assert (await fired(storage))[-1] == 240.0
    assert await fired(storage) == minutes(1, 4)


@virtual_time
async def test_a_clock_that_is_set_back_fires_nothing_twice():
    storage = FaultyStorage()
    clock = VirtualClock()
    async with BrokerQueue(storage, clock=clock) as q:
        await q.schedule("beat", "mail", every=60, missed="all")
        await asyncio.sleep(130)
        clock.skew = -100 * SECOND
        await asyncio.sleep(60)
        assert await fired(storage) == minutes(1, 2)
        await asyncio.sleep(100)
        assert await fired(storage) == minutes(1, 3)
        clock.skew = 100 * SECOND
        await asyncio.sleep(60)
        assert (await fired(storage))[:7] == minutes(1, 7)


@virtual_time
async def test_a_full_queue_does_not_keep_waiting_workers_spinning():
    storage = FaultyStorage(InMemoryStorage())
    async with queue(storage, queue_bytes_max=6000, hot_bytes_max=6000) as q:
        await q.schedule("beat", "mail", b"x" * 1500, every=60)
        await q.enqueue("other", b"x" * 2000)
        [held] = await q.dequeue("other")
        reads = storage.reads
        assert await q.dequeue("mail", wait=170) == []
        assert storage.reads - reads < 400
        await q.ack(held)
        [job] = await q.dequeue("mail", wait=30)
        assert job.payload == b"x" * 1500
