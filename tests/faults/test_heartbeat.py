"""HeartbeatManager keeps claims alive and tells the worker when one is lost."""

import asyncio
from datetime import timedelta

import pytest

from bucketq import (
    ClaimLostError,
    HeartbeatManager,
    JobCancelledError,
    JobNotFoundError,
)
from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

SECOND = timedelta(seconds=1)


broker = queues_with()


@virtual_time
async def test_a_long_job_is_never_taken_while_its_heart_beats():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=3) as worker, broker(storage, stale_after_s=3) as rival:
        await worker.enqueue("mail")
        [job] = await worker.dequeue()
        stolen = asyncio.create_task(rival.dequeue(wait=100))
        async with HeartbeatManager(worker, job, interval=SECOND):
            await asyncio.sleep(90)
        await worker.ack(job)
        assert await stolen == []


@virtual_time
async def test_a_lost_claim_cancels_the_work_and_raises():
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        reached = False
        with pytest.raises(ClaimLostError):
            async with HeartbeatManager(q, job, interval=SECOND):
                await q.requeue_stale(timedelta(seconds=-1))
                await asyncio.sleep(1000)
                reached = True
        assert not reached
        assert asyncio.get_running_loop().time() < 3
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(1)


@virtual_time
async def test_a_lost_claim_is_told_to_the_callback_instead():
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        told = []
        async with HeartbeatManager(q, job, interval=SECOND, on_lost=told.append):
            await q.ack(job)
            await asyncio.sleep(10)
        assert [type(error) for error in told] == [JobNotFoundError]


@virtual_time
async def test_work_that_ends_in_the_same_instant_is_not_disturbed():
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        async with HeartbeatManager(q, job, interval=SECOND):
            await q.ack(job)
            await asyncio.sleep(1)
        await asyncio.sleep(5)


@virtual_time
async def test_someone_elses_cancel_stays_a_cancel():
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), HeartbeatManager(q, job, interval=SECOND):
                await asyncio.sleep(1000)
        await q.ack(job)


@pytest.mark.parametrize("late", [False, True])
@virtual_time
async def test_a_cancel_that_comes_with_a_lost_claim_is_not_swallowed(late):
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()

        async def work():
            async with HeartbeatManager(q, job, interval=SECOND):
                try:
                    await asyncio.sleep(1000)
                finally:
                    if late:
                        await asyncio.sleep(5)

        working = asyncio.create_task(work())
        await asyncio.sleep(0.5)
        await q.ack(job)
        await asyncio.sleep(0.6 if late else 0.5)
        if not late:
            while not working.cancelling():
                await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        assert working.cancelled()


@virtual_time
async def test_an_error_of_the_work_passes_through():
    async with broker(FaultyStorage()) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        with pytest.raises(ZeroDivisionError):
            async with HeartbeatManager(q, job.id):
                raise ZeroDivisionError


@virtual_time
async def test_an_outage_does_not_stop_the_heart():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=60, retry_for_s=5) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        async with HeartbeatManager(q, job, interval=timedelta(seconds=15)):
            await asyncio.sleep(20)
            storage.is_down = True
            await asyncio.sleep(25)
            storage.is_down = False
            before = (await q.read_state()).find(job.id).heartbeat_at
            await asyncio.sleep(300)
            assert (await q.read_state()).find(job.id).heartbeat_at > before
        await q.ack(job)


@virtual_time
async def test_the_heartbeats_of_many_jobs_share_a_write_and_seldom_need_one():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300) as q:
        await q.enqueue_many("mail", range(50))
        jobs = []
        for _ in range(5):
            jobs += await q.dequeue(batch_size=10)
            await asyncio.sleep(7)
        writes = storage.writes
        for _ in range(30):
            await asyncio.sleep(10)
            assert await q.heartbeat_many(jobs) == []
        assert storage.writes - writes == 3, "one for all, every third of the stale timeout"


@virtual_time
async def test_a_cancel_that_was_seen_is_told_by_the_next_heartbeat_though_it_could_ride():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300) as worker, broker(storage) as other:
        await other.enqueue_many("mail", range(3))
        jobs = await worker.dequeue(batch_size=3)
        waiting = asyncio.create_task(worker.dequeue(wait=100))
        await other.cancel(jobs[1].id)
        await asyncio.sleep(1.5)
        [told] = await worker.heartbeat_many(jobs)
        assert (type(told), told.job_id) == (JobCancelledError, jobs[1].id)
        waiting.cancel()


@virtual_time
async def test_after_an_outage_no_job_is_taken_from_a_worker_that_could_not_be_heard():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=30) as worker, broker(storage, stale_after_s=30) as rival:
        await worker.enqueue("mail")
        [job] = await worker.dequeue()
        stolen = asyncio.create_task(rival.dequeue(wait=400))
        async with HeartbeatManager(worker, job, interval=10 * SECOND):
            await asyncio.sleep(20)
            storage.is_down = True
            await asyncio.sleep(200)
            storage.is_down = False
            await asyncio.sleep(100)
        await worker.ack(job)
        assert await stolen == []


@pytest.mark.parametrize("fault", ["lost request", "slow down"])
@virtual_time
async def test_a_storage_that_falters_all_the_time_does_not_keep_the_jobs_of_the_dead(fault):
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=3) as queue:
        await queue.enqueue("mail")
        [job] = await queue.dequeue("mail")
        # Every other write fails.
        storage.faults.extend([fault, None] * 10_000)
        storage.latency_s = 0.001
        async with asyncio.timeout(10):
            while not (found := await queue.dequeue("mail")):
                await queue.enqueue("other")
        assert [one.id for one in found] == [job.id]
