"""Jobs that may not begin any more, and attempts that take too long."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from bucketq import BrokerQueue, ClaimLostError, HeartbeatManager, JobStatus, Settings
from bucketq.archive import Archive
from bucketq.job import Outcome
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def queue(storage, **settings):
    return BrokerQueue(storage, settings=Settings(**settings), clock=VirtualClock())


async def archived(storage):
    return [job async for job in Archive(storage).jobs()]


@virtual_time
async def test_an_expired_job_is_archived_as_one_that_never_began():
    storage = FaultyStorage()
    async with queue(storage, archive_jobs_max=1, payload_inline_max=10) as q:
        job = await q.enqueue("mail", b"a large payload", expires_at=START + 10 * SECOND)
        await asyncio.sleep(9)
        [begun] = await q.dequeue()
        await q.release(begun)
        await asyncio.sleep(1)
        assert await q.dequeue() == []
        assert await q.find(job) is None
        await asyncio.sleep(1)
    [found] = await archived(storage)
    assert (found.id, found.status, found.error, found.worker) == (job.id, "expired", None, None)
    assert (found.claimed_at, found.finished_at) == (None, START + 10 * SECOND)
    assert [one.outcome for one in found.attempts] == [Outcome.RELEASED]
    assert found.attempts_total == 0
    assert storage.names == set(), "its payload is gone too"
    assert (await q.read_state()).stats.cancelled_total == 1


@virtual_time
async def test_a_job_that_was_never_claimed_has_no_attempts_in_the_archive():
    storage = FaultyStorage()
    async with queue(storage, archive_jobs_max=1) as q:
        await q.enqueue("mail", {"n": 1}, run_at=START + 20 * SECOND, expires_in=10)
        await asyncio.sleep(15)
        assert (await q.stats()).scheduled == 1
        assert await q.dequeue(wait=20) == []
        await asyncio.sleep(1)
    [found] = await archived(storage)
    assert (found.status, found.json()) == ("expired", {"n": 1})
    assert (found.first_claimed_at, found.claimed_at, found.attempts) == (None, None, ())


@pytest.mark.parametrize("ending", ["nack", "nack later", "silence", "in line"])
@virtual_time
async def test_a_failed_job_is_not_tried_again_when_it_is_too_late(ending):
    storage = FaultyStorage()
    async with queue(storage, archive_jobs_max=1, stale_after_s=5) as q:
        job = await q.enqueue("mail", expires_in=10)
        if ending == "in line":
            [claimed] = await q.dequeue()
            await q.nack(claimed, "boom")
            await asyncio.sleep(11)
            assert await q.dequeue() == []
        elif ending == "nack later":
            [claimed] = await q.dequeue()
            await q.nack(claimed, "boom", retry_in=11)
        else:
            await asyncio.sleep(9)
            [claimed] = await q.dequeue()
            await asyncio.sleep(2)
            if ending == "nack":
                await q.nack(claimed, "boom")
            else:
                await q.dequeue(wait=9)
        dead = await q.find(job)
        assert dead.status is JobStatus.DEAD
        assert dead.error == ("boom" if ending != "silence" else "stale: no heartbeat from its worker")
        assert len(dead.history) == 1
        await asyncio.sleep(1)
        stats = await q.stats()
        assert (stats.dead_total, stats.cancelled_total) == (1, 0)
    [found] = await archived(storage)
    assert (found.status, found.error, found.attempts_total) == ("dead", dead.error, 1)
    assert [one.outcome for one in found.attempts] == [dead.history[0].outcome]
    assert found.first_claimed_at == dead.history[0].claimed_at


@virtual_time
async def test_a_dequeue_finds_what_is_in_time_behind_any_number_of_expired_jobs_in_segments():
    storage = FaultyStorage()
    async with queue(storage, hot_jobs_max=100, segment_jobs_max=400, archive_jobs_max=100) as q:
        await q.enqueue_many("mail", range(5000), expires_in=10)
        await q.enqueue_many("mail", range(5000, 5005))
        await asyncio.sleep(11)
        claimed = await q.dequeue(batch_size=3)
        assert [job.json() for job in claimed] == [5000, 5001, 5002]
        stats = await q.stats()
        assert (stats.cancelled_total, stats.queued) == (5000, 2)
        assert max(len(json.loads(one)["jobs"]) for one in storage.versions) < 1500
        await q.ack_many(claimed)
        await asyncio.sleep(5)
    assert len(await archived(storage)) == 5003


@virtual_time
async def test_an_attempt_that_takes_too_long_is_over_though_its_heart_beats():
    storage = FaultyStorage()
    async with queue(storage) as worker, queue(storage) as rival:
        await worker.enqueue("mail", timeout=30)
        [slow] = await worker.dequeue()
        other = asyncio.create_task(rival.dequeue(wait=100))
        with pytest.raises(ClaimLostError):
            async with HeartbeatManager(worker, slow, interval=SECOND):
                await asyncio.sleep(1000)
        assert asyncio.get_running_loop().time() == pytest.approx(30, abs=3)
        [again] = await other
        assert again.id == slow.id
        assert (again.attempts, again.crashes, again.error) == (2, 0, "timed out after 30 s")
        assert [one.outcome for one in again.history] == [Outcome.TIMED_OUT]
        with pytest.raises(ClaimLostError):
            await worker.ack(slow)
        await asyncio.sleep(20)
        await rival.ack(again)


@virtual_time
async def test_timeouts_use_up_the_attempts_and_the_archive_says_so():
    storage = FaultyStorage()
    async with queue(storage, archive_jobs_max=1) as q:
        await q.enqueue("mail", timeout=timedelta(seconds=5), max_attempts=2)
        for _ in range(2):
            await q.dequeue()
            await q.dequeue("other", wait=7)
        assert (await q.stats()).dead == 1
        await asyncio.sleep(1)
    [found] = await archived(storage)
    assert [one.outcome for one in found.attempts] == [Outcome.TIMED_OUT] * 2
    assert (found.status, found.error) == ("dead", "timed out after 5 s")


@virtual_time
async def test_a_process_that_has_just_come_gives_every_attempt_its_full_time():
    storage = FaultyStorage()
    async with queue(storage) as worker:
        await worker.enqueue("mail", timeout=30)
        [job] = await worker.dequeue()
    await asyncio.sleep(1000)
    async with queue(storage) as other:
        assert await other.dequeue(wait=29) == []
        [again] = await other.dequeue(wait=5)
        assert again.id == job.id


@virtual_time
async def test_a_timeout_whose_write_fails_is_tried_again():
    storage = FaultyStorage()
    async with queue(storage, retry_for_s=1) as q:
        await q.enqueue("mail", timeout=5)
        await q.dequeue()
        storage.is_down = True
        waiting = asyncio.create_task(q.dequeue(wait=60))
        await asyncio.sleep(20)
        storage.is_down = False
        with pytest.raises(Exception, match="outage"):
            await waiting
        [again] = await q.dequeue(wait=10)
        assert again.error == "timed out after 5 s"
