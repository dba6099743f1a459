"""A budget: commits are held as far apart as the money wants, and never further than the workers bear."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from bucketq import BrokerQueue, DirectQueue, Settings
from bucketq.broker.broker import Beats, Broker
from bucketq.budget import Budget
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

DAY_S = 86_400
# Those of S3: a write each second is 13.39 dollars a month.
PRICED = {"price_per_1000_reads": 0.0004, "price_per_1000_writes": 0.005, "price_per_1000_lists": 0.005}


def now_s():
    return asyncio.get_running_loop().time()


def queue_on(storage, kind=BrokerQueue, **settings):
    return kind(storage, settings=Settings(**PRICED, **settings), clock=VirtualClock())


@asynccontextmanager
async def brokering(storage, beats=None, **settings):
    broker = Broker(storage, Settings(**PRICED, **settings), beats, VirtualClock())
    broker.address = f"{id(broker)}:1"
    running = asyncio.create_task(broker.run())
    # Longer than an election takes.
    await asyncio.sleep(5)
    try:
        yield broker
    finally:
        broker.stop()
        await running


async def work_for(seconds, q, callers=5):
    """Let callers do one job after the other; return how many they did, and how long the last call took."""
    until_s, done, last_s = now_s() + seconds, 0, 0.0

    async def call(name):
        nonlocal done, last_s
        while now_s() < until_s:
            began_s = now_s()
            await q.enqueue(name)
            last_s = now_s() - began_s
            [job] = await q.dequeue(name)
            await q.ack(job)
            done += 1

    await asyncio.gather(*(call(f"mail-{number}") for number in range(callers)))
    return done, last_s


@virtual_time
async def test_a_busy_day_costs_no_more_than_the_budget():
    storage = FaultyStorage()
    storage.latency_s = 0.03
    async with queue_on(storage, budget_per_month=2.0) as q:
        done, _ = await work_for(DAY_S, q, callers=2)
        stats, spending = await q.stats(), q.spending
        assert stats.completed_total == stats.enqueued_total == done, "everything has landed, once"
        # The purse of an hour is spent on top of what comes in.
        assert 0.95 * 2 / 31 < spending.dollars < (1 + 1 / 24) * 2 / 31
        assert spending.is_held_back
        assert spending.dollars_per_month == pytest.approx(2, rel=0.05)
        assert spending.least_per_month is None, "it can be kept"
        assert 6 < spending.interval_s < 7, "0.15 writes a second"


@virtual_time
async def test_when_there_is_room_again_nobody_waits(caplog):
    caplog.set_level(logging.INFO, "bucketq")
    storage = FaultyStorage()
    storage.latency_s = 0.05
    async with queue_on(storage, budget_per_month=2.0) as q:
        _, took_s = await work_for(3600, q)
        assert took_s > 1
        await asyncio.sleep(3600)
        spending = q.spending
        assert not spending.is_held_back
        assert spending.interval_s == spending.dollars_per_month == 0
        _, took_s = await work_for(10, q)
        assert took_s < 0.2
    began, ended = [record.message for record in caplog.records if "held back" in record.message]
    assert "inside the budget of $2.00 a month" in began
    assert "not held back any more" in ended


@virtual_time
async def test_a_few_commits_are_never_held_back():
    async with queue_on(FaultyStorage(), budget_per_month=2.0) as q:
        for _ in range(1000):
            began_s = now_s()
            await q.enqueue("mail")
            assert now_s() == began_s
            await asyncio.sleep(10)


@virtual_time
async def test_without_a_budget_nothing_is_held_back():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    async with queue_on(storage) as q:
        await work_for(120, q)
        assert storage.writes > 1100
        spending = q.spending
        assert (spending.budget_per_month, spending.is_held_back, spending.interval_s) == (0, False, 0)
        assert spending.dollars_per_month == pytest.approx(133.9, rel=0.1)


@virtual_time
async def test_what_cannot_be_kept_is_said_and_the_work_goes_on(caplog):
    storage = FaultyStorage()
    async with queue_on(storage, budget_per_month=0.5) as q:
        done, took_s = await work_for(6 * 3600, q)
        assert (await q.stats()).completed_total == done > 3000
        assert took_s <= 10, "the widest interval"
        assert q.spending.least_per_month == pytest.approx(1.34, abs=0.05)
        assert q.spending.dollars_per_month == pytest.approx(1.34, rel=0.05)
    [said] = [record.message for record in caplog.records if "cannot be kept" in record.message]
    assert "the budget of $0.50 a month" in said
    assert "about $1.34" in said


@virtual_time
async def test_a_queue_that_rests_again_is_not_said_to_cost_too_much():
    async with queue_on(FaultyStorage(), budget_per_month=1.0) as q:
        for _ in range(1000):
            await q.enqueue("film", b"0" * 100_000)
        spending = q.spending
        assert spending.is_held_back
        assert spending.least_per_month == pytest.approx(spending.dollars_per_month), "it cannot be less"
        await asyncio.sleep(400)
        spending = q.spending
        assert spending.is_held_back, "the purse is empty"
        assert (spending.dollars_per_month, spending.least_per_month) == (0, None)


@virtual_time
async def test_the_wider_of_pace_budget_and_wish_wins():
    storage = FaultyStorage()
    storage.write_every_s, storage.latency_s = 9.0, 0.02
    async with queue_on(storage, budget_per_month=2.0, commit_interval_s=0.5) as q:
        done, _ = await work_for(4 * 3600, q)
        assert (await q.stats()).completed_total == done
        assert storage.refused < 0.1 * storage.writes, "the pace that the storage bears is kept"
        assert q.spending.dollars < 2 / 31 * 5 / 24
        storage.write_every_s = 0.0
        await work_for(3600, q)
        writes = storage.writes
        await work_for(600, q)
        assert 0.13 < (storage.writes - writes) / 600 < 0.17, "and then that of the budget"


@virtual_time
async def test_a_direct_queue_waits_too():
    storage = FaultyStorage()
    q = queue_on(storage, DirectQueue, budget_per_month=2.0)
    for _ in range(3000):
        await q.enqueue("mail")
    assert q.spending.dollars < 2 / 31 / DAY_S * (now_s() + 3600)


@virtual_time
async def test_workers_of_a_held_queue_are_not_taken_for_gone():
    storage = FaultyStorage()
    async with queue_on(storage, budget_per_month=0.1, stale_after_s=20) as q:
        await q.enqueue("long")
        [job] = await q.dequeue("long")
        busy = asyncio.create_task(work_for(1800, q))
        until_s = now_s() + 1800
        while now_s() < until_s:
            await q.heartbeat(job)
            await asyncio.sleep(5)
        await q.ack(job)
        await busy
        assert q.spending.interval_s == pytest.approx(20 / 6)


@virtual_time
async def test_nobody_is_held_for_all_who_share_a_direct_queue():
    q = queue_on(FaultyStorage(), DirectQueue, budget_per_month=0.1, stale_after_s=60)
    for _ in range(100):
        await q.enqueue("long")
    jobs = await q.dequeue("long", batch_size=20)

    async def work(job):
        until_s = now_s() + 600
        while now_s() < until_s:
            began_s = now_s()
            await q.heartbeat(job)
            assert now_s() - began_s < 10.1, "the widest interval, once"
            await asyncio.sleep(15)
        await q.ack(job)

    await asyncio.gather(*map(work, jobs))
    assert q.spending.interval_s == 10
    assert (await q.stats()).completed_total == len(jobs) == 20


@virtual_time
async def test_a_leader_keeps_its_term_and_the_budget():
    storage = FaultyStorage()
    storage.latency_s = 0.3
    beats = Beats(interval_s=2, timeout_s=10)
    # Idle it would cost 5.82 dollars.
    async with (
        brokering(storage, beats, budget_per_month=4.5) as broker,
        brokering(storage, beats) as other,
    ):
        await asyncio.sleep(8 * 3600)
        assert (broker.terms, other.terms, broker.leader_changes) == (1, 0, 0)
        spending = broker.spending
        assert spending.is_held_back
        assert spending.dollars < 4.5 / 31 * 9 / 24
        assert spending.dollars_per_month == pytest.approx(4.5, rel=0.05)
        assert other.spending.requests.writes == 0
        assert other.spending.per_s.reads == pytest.approx(1 / 1.3, rel=0.05), "a look each second"


@virtual_time
async def test_whoever_ends_is_not_held_back():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    patient = Beats(interval_s=20, timeout_s=60)
    async with brokering(storage, patient, budget_per_month=0.1) as broker:
        await broker.lead(lambda q: work_for(3600, q))
        assert broker.spending.interval_s == 10
        await asyncio.sleep(11)
        await broker.lead(lambda q: q.enqueue("mail"))
        began_s = now_s()
    assert now_s() - began_s < 1, "another one can lead at once"
    assert "leader" not in await storage.document()
    async with queue_on(storage, budget_per_month=0.1) as q:
        await work_for(3600, q)
        last = [asyncio.create_task(q.enqueue("mail")) for _ in range(5)]
        await asyncio.sleep(0)
        began_s = now_s()
    assert now_s() - began_s < 3, "for the last jobs, and for what was finished"
    await asyncio.gather(*last)


@virtual_time
async def test_a_leader_that_cannot_keep_its_budget_keeps_its_term(caplog):
    storage = FaultyStorage()
    storage.latency_s = 1.0
    async with brokering(storage, budget_per_month=0.5) as broker, brokering(storage) as other:
        await broker.lead(lambda q: work_for(4 * 3600, q))
        assert (broker.terms, other.terms) == (1, 0)
        assert broker.spending.interval_s == 3.5, "half of what a heartbeat may be late"
    patient = Beats(interval_s=20, timeout_s=60)
    async with brokering(storage, patient, budget_per_month=1.0) as broker:
        assert broker.least_per_month == pytest.approx(0.67, abs=0.01)
    said = [record.message for record in caplog.records if "heartbeat of a leader" in record.message]
    assert len(said) == 1, "before it begins; and the patient one can keep its own"
    assert "the budget of $0.50 a month cannot be kept" in said[0]
    assert "costs about $3.83" in said[0]


def test_a_purse_is_paid_into_evenly():
    budget = Budget(per_s=1.0, widest_s=8.0)
    budget.spend(3600, now_s=0.0)
    assert budget.is_spent(0.0)
    assert [budget.interval_s(at_s) for at_s in (0, 450, 900, 1800, 3600)] == [8, 6, 4, 0, 0]
    assert [budget.is_held(at_s) for at_s in (0, 1800, 2699, 2700)] == [True, True, True, False]


def test_a_debt_is_paid_off_within_half_an_hour():
    budget = Budget(per_s=1.0, widest_s=8.0)
    budget.spend(10**9, now_s=0.0)
    assert (budget.interval_s(1800), budget.interval_s(1801)) == (8, pytest.approx(8, abs=0.01))
    assert budget.interval_s(3600) == 0
