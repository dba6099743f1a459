"""The archive, while something else goes on: compaction, reading, collecting and the copies of payloads."""

import asyncio
from collections import Counter

import pytest

from bucketq import StorageError
from bucketq.archive import Archive
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

HOUR_S = 3600
LARGE = b"x" * 500


broker = queues_with(archive_jobs_max=2, archive_after_s=60, collect_after_s=1, payload_inline_max=100)


async def finish(q, batches=1):
    """Let so many objects of two jobs each be archived."""
    ids = []
    for _ in range(batches):
        await q.enqueue_many("mail", range(2))
        jobs = await q.dequeue("mail", batch_size=2)
        assert await q.ack_many(jobs) == []
        ids += [job.id for job in jobs]
        await asyncio.sleep(0.1)
    return ids


async def tidy(q):
    """Let the queue look after its archive now."""
    for _ in range(2):
        await asyncio.sleep(2)
        await q.stats()
    await asyncio.sleep(60)


async def archived(storage):
    return [job async for job in Archive(storage, clock=VirtualClock()).jobs()]


def objects_of(storage):
    return sorted(name for name in storage.beside if name.startswith("archive/"))


@virtual_time
async def test_objects_that_are_compacted_but_not_deleted_yet_are_not_read():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await finish(q, 4)
        await asyncio.sleep(1.3 * HOUR_S)
        await tidy(q)
    assert len(objects_of(storage)) == 5
    before = storage.object_reads
    assert [job.id for job in await archived(storage)] == ids
    assert storage.object_reads == before + 1


@virtual_time
async def test_a_reader_that_lists_after_a_compaction_reads_only_what_was_finished_before():
    storage, damages = FaultyStorage(), []
    async with broker(storage) as q:
        ids, later = await finish(q, 2), []
        await asyncio.sleep(60)
        list_now = storage.objects.list

        async def list_late(prefix=""):
            # Between the reader's look at queue.json and its listing hours go by.
            storage.objects.list = list_now
            later.extend(await finish(q, 2))
            for _ in range(3):
                await asyncio.sleep(1.3 * HOUR_S)
                await tidy(q)
            assert len(objects_of(storage)) == 1
            async for info in list_now(prefix):
                yield info

        storage.objects.list = list_late
        reader = Archive(storage, damages.append, clock=VirtualClock())
        assert [job.id async for job in reader.jobs()] == ids
        assert [job.id async for job in reader.jobs()] == [*ids, *later]
        assert damages == []


@pytest.mark.parametrize("wait_s", [0, 1])
@virtual_time
async def test_a_batch_that_is_created_and_still_in_queue_json_is_read_once(wait_s):
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await finish(q, 1)
        await asyncio.sleep(60)
        ids += await finish(q, 1)
        await asyncio.sleep(wait_s)
        assert len(objects_of(storage)) == 2
        assert len((await storage.document())["sealed"]) == 1
        assert [job.id for job in await archived(storage)] == ids
        assert (await verify(storage)).is_sound


@virtual_time
async def test_no_compacted_object_stands_for_a_batch_that_could_not_be_created_yet():
    storage = FaultyStorage()
    create, refused = storage.objects.create, []

    async def create_but_the_second(name, content):
        if len(objects_of(storage)) == 1 and not refused:
            refused.append(name)
        if name in refused:
            raise StorageError("injected: this one not")
        await create(name, content)

    storage.objects.create = create_but_the_second
    async with broker(storage, retry_for_s=0) as q:
        ids = await finish(q, 4)
        await asyncio.sleep(1.3 * HOUR_S)
        await tidy(q)
        assert len((await storage.document())["sealed"]) == 1
        assert Counter(job.id for job in await archived(storage)) == Counter(ids)
        storage.objects.create = create
        for _ in range(3):
            await tidy(q)
        assert "sealed" not in await storage.document()
        assert Counter(job.id for job in await archived(storage)) == Counter(ids)
        assert (await verify(storage)).is_sound


@virtual_time
async def test_a_large_payload_is_not_collected_before_the_archive_has_its_copy():
    storage = FaultyStorage()
    async with broker(storage, archive_payloads=True, archive_after_s=HOUR_S) as q:
        await q.enqueue("mail", LARGE)
        await q.ack((await q.dequeue())[0])
        await asyncio.sleep(10)
        assert await q.collect_garbage() == []
        assert len(storage.names) == 1
        await asyncio.sleep(HOUR_S + 60)
        [job] = await archived(storage)
        assert await Archive(storage, clock=VirtualClock()).fetch_payload(job) == LARGE
        assert storage.names == set()


@virtual_time
async def test_a_dead_job_keeps_its_large_payload_and_so_does_the_archive():
    storage = FaultyStorage()
    async with broker(storage, archive_payloads=True) as q:
        dead = await q.enqueue("mail", LARGE, max_attempts=1)
        await q.nack((await q.dequeue())[0], "no")
        await asyncio.sleep(HOUR_S)
        await q.stats()
        await asyncio.sleep(60)
        assert "sealed" not in await storage.document()
        assert await q.fetch_payload(await q.find(dead.id)) == LARGE
        [job] = await archived(storage)
        assert await Archive(storage, clock=VirtualClock()).fetch_payload(job) == LARGE
        assert (await verify(storage)).is_sound
