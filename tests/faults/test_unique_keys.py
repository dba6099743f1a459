"""Unique keys of jobs that stand in segments: no second one with the same key, and nothing left behind."""

import asyncio

import pytest

from bucketq import DirectQueue, KeyTakenError, Settings
from bucketq.object_name import keys_name
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 40, "segment_jobs_max": 50}


broker = queues_with(**SMALL)


async def with_keys(q, count=200, **options):
    return [await q.enqueue("mail", number, key=f"k{number}", **options) for number in range(count)]


async def companions(storage):
    segments = (await storage.document()).get("segments", [])
    return {keys_name(segment["name"]) for segment in segments if segment.get("keys")}


@pytest.mark.parametrize("options", [{}, {"delay": 3600}])
@virtual_time
async def test_a_key_in_a_segment_is_taken(options):
    storage = FaultyStorage()
    async with broker(storage) as q:
        jobs = await with_keys(q, **options)
    assert len(await companions(storage)) >= 3
    # Others, that have read nothing yet.
    for q in (broker(storage), DirectQueue(storage, settings=Settings(**SMALL), clock=VirtualClock())):
        async with q:
            for number in (0, 100, 199):
                again = await q.enqueue("mail", "again", key=f"k{number}")
                assert again == jobs[number]
                with pytest.raises(KeyTakenError, match=jobs[number].id):
                    await q.enqueue("mail", "again", key=f"k{number}", if_exists="raise")
            assert (await q.stats()).enqueued_total == 200
    assert (await verify(storage.inner)).is_sound


@virtual_time
async def test_the_fingerprints_are_read_once_and_together():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await with_keys(q)
    count = len(await companions(storage))
    async with broker(storage) as q:
        storage.object_latency_s = 1.0
        before, began_s = storage.object_reads, asyncio.get_running_loop().time()
        await q.enqueue("mail", key="new")
        assert storage.object_reads - before == count
        assert asyncio.get_running_loop().time() - began_s < 3, "not one after the other"
        for number in range(5):
            await q.enqueue("mail", key=f"newer {number}")
        assert storage.object_reads - before == count


@virtual_time
async def test_a_job_in_a_segment_is_replaced():
    storage = FaultyStorage()
    async with broker(storage) as q:
        old = (await with_keys(q))[150]
        new = await q.enqueue("mail", "new", key="k150", if_exists="replace")
        assert await q.find(old) is None
        assert (await q.enqueue("mail", "newer", key="k150")).id == new.id
        served = []
        while jobs := await q.dequeue(batch_size=20):
            served += [job.json() for job in jobs]
            await q.ack_many(jobs)
        assert served == [*(number for number in range(200) if number != 150), "new"]
        again = await q.enqueue("mail", "again", key="k150")
        assert again.json() == "again", "the key is free when its job is finished"
    verdict = await verify(storage.inner)
    assert verdict.is_sound, verdict.problems


@virtual_time
async def test_companions_live_and_die_with_their_segments():
    storage = FaultyStorage()
    async with broker(storage, segment_jobs_max=400) as q:
        for number in range(600):
            await q.enqueue("mail", number, key=f"k{number}", priority=number % 3)
        await q.collect_garbage()
    there = {name for name in storage.names if name.endswith(".keys")}
    assert there == await companions(storage) != set()
    async with broker(storage, collect_after_s=1) as q:
        await asyncio.sleep(10)
        assert await q.collect_garbage() == [], "the collector leaves them alone"
        assert (await q.enqueue("mail", key="k300")).json() == 300
        while jobs := await q.dequeue(batch_size=50):
            await q.ack_many(jobs)
    assert storage.names == set()


@pytest.mark.parametrize("damage", ["gone", "cut short"])
@virtual_time
async def test_a_lost_companion_costs_a_look_into_the_segment_and_no_uniqueness(damage):
    storage = FaultyStorage()
    async with broker(storage) as q:
        jobs = await with_keys(q)
    for name in await companions(storage):
        content, at = storage.beside[name]
        if damage == "gone":
            del storage.beside[name]
        else:
            storage.beside[name] = content[:-8], at
    assert not (await verify(storage.inner)).is_sound, "and it is told"
    async with broker(storage) as q:
        for number in (0, 100, 199):
            assert (await q.enqueue("mail", key=f"k{number}")).id == jobs[number].id


@virtual_time
async def test_two_brokers_that_enqueue_the_same_keys_add_each_once():
    storage = FaultyStorage()
    storage.latency_s = 0.01
    async with broker(storage) as one, broker(storage) as other:
        turns = [
            asyncio.gather(*(q.enqueue("mail", key=f"k{number}") for q in (one, other, one)))
            for number in range(150)
        ]
        for same in await asyncio.gather(*turns):
            assert len({job.id for job in same}) == 1
        assert (await one.stats()).enqueued_total == 150


@virtual_time
async def test_the_payload_of_a_job_that_was_not_added_is_not_kept():
    storage = FaultyStorage()
    async with broker(storage, payload_inline_max=10) as q:
        first = await q.enqueue("mail", "x" * 100, key="k")
        assert await q.enqueue("mail", "y" * 100, key="k") == await q.find(first)
        with pytest.raises(KeyTakenError):
            await q.enqueue("mail", "z" * 100, key="k", if_exists="raise")
        assert storage.names == {first.payload_object}
        second = await q.enqueue("mail", "z" * 100, key="k", if_exists="replace")
        await asyncio.sleep(1)
        assert storage.names == {second.payload_object}
        assert await q.fetch_payload(second) == b'"%b"' % (b"z" * 100)


@virtual_time
async def test_a_kept_key_is_free_when_its_time_is_over_and_leaves_nothing():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail", key="k", key_for=60)
        await q.enqueue("mail")
        [job, other] = await q.dequeue(batch_size=2)
        await q.ack(job)
    async with broker(storage) as q:
        for if_exists in ("return", "replace", "raise"):
            with pytest.raises(KeyTakenError, match=job.id):
                await q.enqueue("mail", key="k", if_exists=if_exists)
        await asyncio.sleep(61)
        assert (await q.enqueue("mail", key="k")).id != job.id
        await q.ack(other)
    assert "kept_keys" not in await storage.document()
