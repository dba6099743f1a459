"""Claims on whole segments under crashes, lost answers and silence: no job is lost or doubled."""

import asyncio
from contextlib import suppress
from itertools import count

import pytest

from bucketq import ClaimLostError, OutcomeUnknownError, UnusableStorageError
from bucketq.broker.served import ServedQueue
from bucketq.operation import SettleSegment
from bucketq.testing.virtual_time import Process, VirtualClock, run, virtual_time
from tests.faults.faulty import FaultyStorage
from tests.faults.segment_work import (
    JOBS,
    SETTINGS,
    Mortal,
    Work,
    broker,
    check_all_done_once,
    direct,
    finish,
    load,
)
from tests.faults.test_archive import archived

FAULTS = ["conflict", "lost answer", "lost, retried", "lost request", "late", "slow down"]


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_process_that_dies_at_any_step_loses_and_doubles_nothing(is_after):
    async def dies_at(number):
        storage = FaultyStorage()
        ids = await load(storage)
        process = Process("mortal")
        mortal = Mortal(storage, process, number, is_after=is_after)

        async def live():
            async with broker(mortal) as q:
                await Work(mortal, q).settle()
                # Until the batch is archived, let go of, and its parts are removed.
                await asyncio.sleep(50)

        life = process.start(live())
        try:
            await asyncio.wait([life], timeout=60)
            has_died = not process.is_alive
            await finish(storage)
            await check_all_done_once(storage, ids)
        finally:
            process.bury()
            await asyncio.wait([life])
        with suppress(UnusableStorageError):
            await life
        return has_died

    # Until it has lived through all of it.
    steps = next(number for number in count(1) if not run(dies_at(number)))
    assert steps > 12


@pytest.mark.parametrize("open_queue", [broker, direct])
@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_each_step_takes_effect_once_whatever_becomes_of_its_answer(open_queue, fault):
    storage = FaultyStorage()
    ids = await load(storage)
    q = open_queue(storage)
    async with q:
        work = Work(storage, q)
        storage.faults.extend([fault] * 2)
        await work.take()
        assert (await q.stats()).in_progress == work.claim.segment.count
        storage.faults.append(fault)
        await q.release_segment(work.claim)
        assert (await q.stats()).queued == JOBS
        work = Work(storage, q)
        await work.take()
        storage.faults.append(fault)
        await q.heartbeat_segment(work.claim)
        completed = await work.complete(await work.jobs())
        storage.faults.extend([fault] * 2)
        await q.settle_segment(work.claim, completed)
        stats = await q.stats()
        assert (stats.completed_total, stats.in_progress) == (work.claim.segment.count, 0)
    await finish(storage)
    await check_all_done_once(storage, ids)


@pytest.mark.parametrize("fault", ["lost answer", "lost request", "slow down"])
@virtual_time
async def test_objects_whose_answer_is_lost_are_written_once(fault):
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage) as q:
        work = Work(storage, q)
        await work.take()
        jobs = await work.jobs()
        storage.object_faults.append(fault)
        completed = await work.complete(jobs[:3])
        storage.object_faults.append(fault)
        rest = await work.give_back(jobs[3:])
        storage.object_faults.extend([fault] * 3)
        await q.settle_segment(work.claim, completed, rest=rest)
        await asyncio.sleep(100)
    await finish(storage)
    await check_all_done_once(storage, ids)


@virtual_time
async def test_a_claimer_that_comes_too_late_is_refused_and_its_objects_are_collected():
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage) as claiming, broker(storage) as watching:
        work = Work(storage, claiming)
        await work.take()
        jobs = await work.jobs()
        completed, rest = await work.complete(jobs[:2]), await work.give_back(jobs[2:])
        await watching.stats()
        await asyncio.sleep(61)
        again = await watching.dequeue("mail", batch_size=2)
        assert [(job.id, job.attempts, job.crashes) for job in again] == [(ids[0], 2, 1), (ids[1], 2, 1)]
        assert again[0].history[0].worker == claiming.worker
        for refused in (
            claiming.settle_segment(work.claim, completed, rest=rest),
            claiming.heartbeat_segment(work.claim),
        ):
            with pytest.raises(ClaimLostError, match="drop its results"):
                await refused
        await claiming.release_segment(work.claim)
        await watching.ack_many(again)
        left = {part.name for part in completed} | {segment.name for segment in rest}
        assert left <= storage.names
    await finish(storage)
    await check_all_done_once(storage, ids)


@virtual_time
async def test_a_worker_whose_heart_beats_keeps_its_segment_whatever_the_clocks_say():
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage) as claiming, broker(storage) as watching:
        work = Work(storage, claiming)
        await work.take()
        for _ in range(10):
            await asyncio.sleep(50)
            await claiming.heartbeat_segment(work.claim)
            await watching.stats()
        await claiming.settle_segment(work.claim, await work.complete(await work.jobs()))
        assert (await watching.stats()).completed_total == work.claim.segment.count


@pytest.mark.parametrize("speaks", ["heartbeat", "settlement"])
@virtual_time
async def test_a_process_that_stood_still_hears_its_own_worker_first(speaks):
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage) as q:
        work = Work(storage, q)
        await work.take()
        completed = await work.complete(await work.jobs())
        asyncio.get_running_loop().advance(100)
        if speaks == "heartbeat":
            await q.heartbeat_segment(work.claim)
        await q.settle_segment(work.claim, completed)


@virtual_time
async def test_a_claim_whose_caller_went_away_is_given_back():
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage) as q:
        await q.stats()
        storage.latency_s = 1
        calling = asyncio.create_task(q.dequeue_segment("mail"))
        await asyncio.sleep(0.5)
        calling.cancel()
        await asyncio.wait([calling])
        await asyncio.sleep(5)
        storage.latency_s = 0
        stats = await q.stats()
        assert (stats.queued, stats.in_progress) == (JOBS, 0)
        assert await q.dequeue_segment("mail") is not None


@virtual_time
async def test_the_jobs_bytes_do_not_pass_queue_json_and_the_driver_reads_none_of_them():
    storage = FaultyStorage()
    await load(storage)
    storage.versions.clear()
    async with broker(storage) as q:
        work = Work(storage, q)
        await work.settle_completed()
        await asyncio.sleep(50)
    assert not any(b'"n"' in version for version in storage.versions)
    # The worker's own read, and that of the part on its way to the archive.
    assert storage.object_reads == 2
    assert len(await archived(storage)) == work.claim.segment.count
    assert len(storage.versions) == 3, "claimed, settled, let go of"


@virtual_time
async def test_a_settlement_after_a_commit_that_failed_is_checked_against_the_claim():
    storage = FaultyStorage()
    await load(storage)
    async with ServedQueue(storage, SETTINGS, VirtualClock()) as q:
        work = Work(storage, q)
        await work.take()
        completed = await work.complete(await work.jobs())
        storage.is_down = True
        with pytest.raises(OutcomeUnknownError):
            await q.enqueue("mail")
        storage.is_down = False
        settlement = SettleSegment(work.claim.claim, tuple(completed), (), (), VirtualClock().now())
        await q.check_settlement(settlement)
        await q.release_segment(work.claim)
        with pytest.raises(ClaimLostError):
            await q.check_settlement(settlement)
