"""Completed jobs of whole segments on their way to the archive: read once, kept, missed if they are gone."""

import asyncio
import json
from collections import Counter
from contextlib import suppress

import pytest
from msgspec.structs import replace

from bucketq import CorruptStateError, InMemoryStorage, ObjectNotFoundError, StorageError, connect
from bucketq.archive import Archive
from bucketq.archive_selection import Selection
from bucketq.broker.serving import serving
from bucketq.codec import decode
from bucketq.job import Claim
from bucketq.object_name import staged_name
from bucketq.operation import Bury
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage
from tests.faults.segment_work import SETTINGS, Mortal, Work, broker, check_all_done_once, finish, load
from tests.faults.test_archive import archived, objects_of

HOUR_S = 3600


@virtual_time
async def test_a_reader_sees_each_job_once_at_each_moment():
    storage = FaultyStorage()
    ids = await load(storage)
    seen = []

    async def look(request):
        outcome = await request
        content, _ = await storage.inner.read()
        damages = []
        archive = Archive(storage.inner, damages.append, VirtualClock())
        found = Counter([job.id async for job in archive.jobs()])
        assert damages == []
        assert found.total() == len(found) == decode(content).stats.completed_total
        assert all([(await archive.find(job_id)).id == job_id for job_id in found])
        assert (await verify(storage.inner)).problems == []
        seen.append(len(found))
        return outcome

    watched = Mortal(storage, None, -1, is_after=True)
    watched.reach = look
    async with broker(watched) as q:
        for _ in range(2):
            await Work(watched, q).settle()
            await asyncio.sleep(50)
            # What failed stands before the rest again.
            await q.ack_many(await q.dequeue("mail"))
    assert {0, 4, 5, 7, 8} == set(seen)
    assert seen.count(4) > 5, "also while the batch is on its way"
    await finish(storage)
    await check_all_done_once(storage, ids)


@pytest.mark.parametrize("is_compacted", [False, True])
@virtual_time
async def test_a_reader_that_is_slow_finds_a_batch_that_has_arrived_meanwhile(is_compacted):
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage, collect_after_s=1) as q:
        storage.object_latency_s = 5
        await Work(storage, q).settle_completed()
        archive = Archive(storage.inner, clock=VirtualClock())
        pieces, state = await archive.plan(Selection())
        assert [batch.total for batch in state.ledger.sealed.values()] == [8]
        storage.object_latency_s = 0
        await asyncio.sleep(100)
        assert not any(name.startswith("staged/") for name in storage.beside)
        if is_compacted:
            await Work(storage, q).settle_completed()
            for _ in range(3):
                await asyncio.sleep(1.5 * HOUR_S)
                await q.stats()
                await asyncio.sleep(60)
            assert [name for name in objects_of(storage) if "-0000" in name.rpartition("/")[2]]
        read = [job.id async for _, jobs in archive.read(pieces, state.ledger) for job in jobs]
        assert len(read) == len(set(read)) == 8


@virtual_time
async def test_lines_and_parts_of_one_hour_and_version_are_one_object():
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage, archive_jobs_max=1) as q:
        works = [Work(storage, q), Work(storage, q)]
        for work in works:
            await work.take()
        [first, *others], jobs = [await work.jobs() for work in works]
        completed = [await works[0].complete(others), await works[1].complete(jobs)]
        dead = [Bury(Claim.of(first), "never", VirtualClock().now())]
        with suppress(TimeoutError):
            # So that the segment is at hand.
            await q.result(first.id, timeout=1)
        storage.latency_s = 0.1
        await asyncio.gather(
            q.stats(),
            q.settle_segment(works[0].claim, completed[0], dead),
            q.settle_segment(works[1].claim, completed[1]),
        )
        await asyncio.sleep(50)
    [content] = objects_of(storage).values()
    assert len(content) == 16
    assert [job["id"] for job in content] == [
        first.id,
        *(job.id for job in others),
        *(job.id for job in jobs),
    ]
    assert (await verify(storage)).problems == []


@virtual_time
async def test_without_an_archive_completed_jobs_are_only_counted():
    storage = FaultyStorage()
    await load(storage)
    async with broker(storage, archive=False) as q:
        await Work(storage, q).settle_completed()
        assert (await q.stats()).completed_total == 8
    assert not [name for name in storage.beside if name.startswith(("staged/", "archive/"))]


@virtual_time
async def test_what_is_claimed_or_staged_stays_however_old():
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage, collect_after_s=100, stale_after_s=1000 * HOUR_S) as q:
        first, second = Work(storage, q), Work(storage, q)
        await first.take()
        await second.take()
        storage.object_latency_s = 10
        await q.settle_segment(first.claim, await first.complete(await first.jobs()))
        storage.object_faults.extend(["lost request"] * 100)
        await asyncio.sleep(60)
        assert (await storage.document())["staged"]
        storage.object_faults.clear()
        storage.object_latency_s = 0
        await asyncio.sleep(2)
        content, _ = await storage.inner.read()
        needed = decode(content).object_names()
        await asyncio.sleep(200)
        await q.collect_garbage()
        assert {name for name in needed if name.startswith("backlog/")} <= storage.names
        await second.give_back(await second.jobs())
        await asyncio.sleep(200)
        await q.collect_garbage()
        with pytest.raises(StorageError, match="do it again, in less time"):
            await q.settle_segment(second.claim, await second.complete(await second.jobs()))
        await q.release_segment(second.claim)
    await finish(storage)
    await check_all_done_once(storage, ids)


def vanish(storage, name):
    del storage.beside[name]


def cut_short(storage, name):
    content, at = storage.beside[name]
    storage.beside[name] = content[:-20], at


@pytest.mark.parametrize("damage", [vanish, cut_short])
@pytest.mark.parametrize("folder", ["staged/", "backlog/"])
@virtual_time
async def test_damage_is_told_and_all_goes_on_once_it_is_repaired(folder, damage):
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage) as q:
        first, second = Work(storage, q), Work(storage, q)
        await first.take()
        parts = await first.complete(await first.jobs())
        await second.take()
        if folder == "staged/":
            [name] = [part.name for part in parts]
            whole = storage.beside[name]
            damage(storage, name)
            await q.settle_segment(first.claim, parts)
        else:
            await q.settle_segment(first.claim, parts)
            name = second.claim.segment.name
            whole = storage.beside[name]
            damage(storage, name)
        await asyncio.sleep(5)
        problems = (await verify(storage)).problems
        assert problems
        assert any(name in problem or "archive/" in problem for problem in problems)
        storage.beside[name] = whole
        await asyncio.sleep(50)
        await q.release_segment(second.claim)
        await asyncio.sleep(50)
    await finish(storage)
    await check_all_done_once(storage, ids)


@virtual_time
async def test_who_waits_for_a_result_gets_it_while_that_is_on_its_way():
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage) as q, broker(storage) as waiting:
        result = asyncio.create_task(waiting.result(ids[0], timeout=100))
        await asyncio.sleep(1)
        storage.object_latency_s = 3
        await Work(storage, q).settle_completed()
        assert json.loads((await storage.inner.read())[0])["staged"]
        assert await result is None


@virtual_time
async def test_a_batch_that_two_processes_see_to_is_no_trouble(caplog):
    storage = FaultyStorage()
    ids = await load(storage)
    async with broker(storage) as settling, broker(storage) as other:
        await other.stats()
        await Work(storage, settling).settle_completed()
        await other.stats()
        # It has waited long enough for the other one, which is slow.
        await asyncio.sleep(29)
        storage.object_latency_s = 5
        await other.enqueue("another")
        await asyncio.sleep(0.1)
        storage.object_latency_s = 0
        await asyncio.sleep(30)
        await other.dequeue("another")
    assert not caplog.records
    assert Counter(job.id for job in await archived(storage)) == Counter(ids[:8])
    assert (await verify(storage)).problems == []


async def test_a_broker_takes_in_no_part_that_is_not_what_its_entry_says():
    storage = InMemoryStorage()
    async with (
        serving(storage, settings=SETTINGS) as served,
        connect(f"grpc://{served.address}", settings=SETTINGS) as q,
    ):
        await q.enqueue_many("mail", range(24))
        work = Work(q.storage, q)
        await work.take()
        jobs = await work.jobs()
        [part] = await work.complete(jobs)
        fewer = replace((await work.complete(jobs[1:]))[0], count=part.count)
        longer = replace(part, size=part.size + 1)
        missing = replace(part, name=staged_name(work.claim.version, "00000000000000aa"))
        for wrong in (fewer, longer, missing):
            with pytest.raises((CorruptStateError, ObjectNotFoundError)):
                await q.settle_segment(work.claim, [wrong])
        assert (await q.stats()).in_progress == len(jobs)
        await q.settle_segment(work.claim, [part])
        assert (await q.stats()).completed_total == len(jobs)
