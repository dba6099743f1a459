"""Cancelled jobs: gone from wherever they wait, stopped where they run, and told of in the archive."""

import asyncio

import pytest

from bucketq import (
    CorruptStateError,
    HeartbeatManager,
    JobCancelledError,
    JobNotFoundError,
)
from bucketq.archive import Archive
from bucketq.job import Outcome
from bucketq.retry import GiveUp
from bucketq.testing.virtual_time import virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 40, "segment_jobs_max": 2000}


broker = queues_with(**SMALL)


async def archived(storage):
    return [job async for job in Archive(storage.inner).jobs()]


@virtual_time
async def test_a_cancelled_job_is_archived_as_such_though_nobody_claimed_it():
    storage = FaultyStorage()
    async with broker(storage) as q:
        never, tried = await q.enqueue("mail", 1), await q.enqueue("mail", 2)
        await q.cancel(never)
        [job] = await q.dequeue()
        await q.nack(job, "boom", retry_in=60)
        await q.cancel(tried)
    first, second = await archived(storage)
    assert (first.id, first.status, first.attempts_total) == (never.id, "cancelled", 0)
    assert (first.claimed_at, first.first_claimed_at, first.attempts) == (None, None, ())
    assert (second.id, second.claimed_at, second.attempts_total) == (tried.id, None, 1)
    assert [attempt.outcome for attempt in second.attempts] == [Outcome.FAILED]
    assert second.first_claimed_at == job.claimed_at
    assert (await verify(storage.inner)).is_sound


@pytest.mark.parametrize("end", ["nack", "release", "stale", "bury"])
@virtual_time
async def test_a_running_job_that_is_cancelled_is_not_tried_again(end):
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=30) as q:
        await q.enqueue("mail", key="k")
        [job] = await q.dequeue(worker="w")
        await q.cancel(job)
        match end:
            case "nack":
                assert (await q.nack(job, "stopped")).is_cancelled
            case "bury":
                await q.nack(job, "stopped", retry=lambda failure: GiveUp())
            case "release":
                await q.release(job)
            case "stale":
                assert await q.dequeue(wait=60) == []
        assert await q.find(job) is None
        stats = await q.stats()
        assert (stats.cancelled_total, stats.dead_total, stats.queued) == (1, 0, 0)
        assert (await q.enqueue("mail", key="k")).id != job.id
    [line] = await archived(storage)
    assert (line.status, line.worker, line.claimed_at) == ("cancelled", "w", job.claimed_at)
    assert [attempt.outcome for attempt in line.attempts] == [
        Outcome.STALE if end == "stale" else Outcome.CANCELLED
    ]


@virtual_time
async def test_the_work_on_a_cancelled_job_is_stopped_though_its_heartbeats_ride():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=90) as worker, broker(storage) as other:
        await other.enqueue("mail")
        [job] = await worker.dequeue()

        async def work():
            async with HeartbeatManager(worker, job, interval=1):
                await asyncio.sleep(1000)

        working = asyncio.create_task(work())
        await asyncio.sleep(10)
        cancelled_s = asyncio.get_running_loop().time()
        assert (await other.cancel(job.id)).is_cancelled
        with pytest.raises(JobCancelledError):
            await working
        assert asyncio.get_running_loop().time() - cancelled_s < 90 / 3 + 2
        await worker.release(job)
        assert (await other.stats()).cancelled_total == 1


@virtual_time
async def test_many_are_cancelled_out_of_one_segment():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await q.enqueue_many("mail", range(1500))
        for job_id in ids[100:1400:2]:
            await q.cancel(job_id)
        segments = (await storage.document()).get("segments", [])
        assert all(len(segment.get("holes", [])) <= 500 for segment in segments)
        with pytest.raises(JobNotFoundError):
            await q.cancel(ids[102])
        served = []
        while jobs := await q.dequeue(batch_size=50):
            served += [job.json() for job in jobs]
            await q.ack_many(jobs)
        assert served == [number for number in range(1500) if number not in range(100, 1400, 2)]
        assert (await q.stats()).cancelled_total == 650
    assert (await verify(storage.inner)).is_sound


@virtual_time
async def test_a_segment_of_which_every_job_is_cancelled_is_gone():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await q.enqueue_many("mail", range(100))
        for job_id in reversed(ids):
            await q.cancel(job_id)
        assert (await q.stats()).queued == 0
    assert storage.names == set()


@virtual_time
async def test_a_cancel_whose_answer_is_lost_is_done_once():
    storage = FaultyStorage()
    async with broker(storage) as q:
        job = await q.enqueue("mail")
        storage.faults.append("lost, retried")
        assert (await q.cancel(job)).id == job.id
        assert (await q.stats()).cancelled_total == 1


@virtual_time
async def test_a_segment_that_is_gone_is_named():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await q.enqueue_many("mail", range(100))
    storage.beside.clear()
    async with broker(storage) as q:
        with pytest.raises(CorruptStateError, match="backlog/"):
            await q.cancel(ids[50])
