"""Dead jobs in queue.json and in segments: listed, done again, discarded, with their payloads."""

import asyncio
import json

import pytest

from bucketq.archive import Archive
from bucketq.testing.virtual_time import virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 40, "segment_jobs_max": 100}


broker = queues_with(**SMALL)


async def bury_many(q, count, payload=lambda number: number):
    for number in range(count):
        await q.enqueue("mail", payload(number), max_attempts=1)
    while jobs := await q.dequeue(batch_size=20):
        for job in jobs:
            await q.nack(job, f"error {job.id[-1]}")


async def drain(q):
    served = []
    while jobs := await q.dequeue(batch_size=20):
        served += [job.json() for job in jobs]
        await q.ack_many(jobs)
    return served


@virtual_time
async def test_all_dead_jobs_are_redriven_from_their_segments_in_bounded_commits():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await bury_many(q, 450)
        assert any(one.get("status") == "dead" for one in (await storage.document())["segments"])
        listed = [job async for job in q.dead()]
        assert sorted(job.json() for job in listed) == list(range(450))
        before = storage.writes
        assert await q.redrive_many() == 450
        assert storage.writes - before >= 5
        manifests = [json.loads(content).get("segments", []) for content in storage.versions]
        dead = [one for manifest in manifests for one in manifest if one.get("status") == "dead"]
        assert not any("holes" in one for one in dead), "they leave in order"
        assert [job async for job in q.dead()] == []
        assert sorted(await drain(q)) == list(range(450))
        stats = await q.stats()
        assert (stats.enqueued_total, stats.dead_total, stats.completed_total) == (900, 450, 450)
    assert storage.names == set()
    verdict = await verify(storage.inner)
    assert verdict.is_sound, verdict.problems


@virtual_time
async def test_some_are_chosen_by_their_error():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await bury_many(q, 200)
        chosen = {job.id async for job in q.dead() if job.error == "error a"}
        assert await q.discard_many(error="error a") == len(chosen) > 0
        left = [job async for job in q.dead()]
        assert len(left) == 200 - len(chosen)
        assert not chosen & {job.id for job in left}
        assert await q.redrive_many(limit=7) == 7
        assert (await q.stats()).dead == len(left) - 7
    assert (await verify(storage.inner)).is_sound


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("is_quick", [False, True])
@virtual_time
async def test_the_payload_goes_with_the_job_that_is_done_again_and_then_goes(keeps, is_quick):
    storage = FaultyStorage()
    settings = {"payload_inline_max": 100, "archive_payloads": keeps, "archive_after_s": 5}
    async with broker(storage, **settings) as q:
        await bury_many(q, 150, lambda number: f"{number:0200}")
        # Archived before they are done again, or after.
        await asyncio.sleep(0 if is_quick else 100)
        assert await q.redrive_many(limit=100) == 100
        assert len({*await drain(q)}) == 100
        await asyncio.sleep(100)
        assert await q.discard_many() == 50
        await asyncio.sleep(100)
    async with broker(storage, **settings | {"collect_after_s": 1}) as q:
        await asyncio.sleep(10)
        await q.collect_garbage()
    assert storage.names == set()
    verdict = await verify(storage.inner)
    assert verdict.is_sound, verdict.problems
    archive = Archive(storage.inner)
    jobs = [job async for job in archive.jobs()]
    assert len(jobs) == 250
    if keeps:
        for job in jobs:
            assert len(await archive.fetch_payload(job)) == 202
