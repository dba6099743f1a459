"""The archive, read: each job once, whatever is compacted, removed or damaged meanwhile."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from bucketq import (
    ConfigurationError,
    DirectQueue,
    InMemoryStorage,
    LocalFileSystemStorage,
    Settings,
    StorageError,
)
from bucketq.archive import Archive
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_S, DAY_S = 3600, 86400
HOUR = timedelta(hours=1)


broker = queues_with(archive_jobs_max=2, archive_after_s=60, collect_after_s=1)


def archive_of(storage, damages=None):
    return Archive(storage, None if damages is None else damages.append, clock=VirtualClock())


async def finish(q, count=2, entrypoint="mail"):
    await q.enqueue_many(entrypoint, range(count))
    jobs = await q.dequeue(entrypoint, batch_size=count)
    assert await q.ack_many(jobs) == []
    return [job.id for job in jobs]


async def finish_batches(q, batches):
    """Let so many objects of two jobs each be archived."""
    ids = []
    for _ in range(batches):
        ids += await finish(q)
        await asyncio.sleep(0.1)
    return ids


async def tidy(q):
    """Let the queue look after its archive now."""
    await asyncio.sleep(2)
    await q.stats()
    await asyncio.sleep(2)
    await q.stats()
    await asyncio.sleep(60)


async def ids_of(jobs):
    return [job.id async for job in jobs]


def objects_of(storage, prefix="archive/"):
    return sorted(name for name in storage.beside if name.startswith(prefix))


@virtual_time
async def test_jobs_are_found_by_when_they_finished_by_entrypoint_and_by_status():
    storage = FaultyStorage()
    async with broker(storage) as q:
        first = await finish(q, 2)
        await asyncio.sleep(2 * HOUR_S)
        second = await finish(q, 2, "resize")
        dead = await q.enqueue("mail", max_attempts=1)
        await asyncio.sleep(HOUR_S / 2)
        await q.nack((await q.dequeue())[0], "no")
    archive = archive_of(storage)
    assert await ids_of(archive.jobs()) == [*first, *second, dead.id]
    assert await ids_of(archive.jobs(since=START + HOUR)) == [*second, dead.id]
    assert await ids_of(archive.jobs(until=START + HOUR)) == first
    assert await ids_of(archive.jobs(since=START + 2 * HOUR, until=START + 2.4 * HOUR)) == second
    assert await ids_of(archive.jobs(entrypoint="mail")) == [*first, dead.id]
    assert await ids_of(archive.jobs(status="dead")) == [dead.id]
    assert await ids_of(archive.jobs(entrypoint="resize", status="dead")) == []


@virtual_time
async def test_the_hours_that_are_not_asked_for_are_not_read():
    storage = FaultyStorage()
    async with broker(storage) as q:
        for _ in range(5):
            await finish(q)
            await asyncio.sleep(HOUR_S)
    assert len(await ids_of(archive_of(storage).jobs(since=START + 2 * HOUR, until=START + 3 * HOUR))) == 2
    assert storage.object_reads == 1


@virtual_time
async def test_the_newest_come_first_and_no_more_is_read_than_is_taken():
    storage = FaultyStorage()
    async with broker(storage) as q:
        finished = []
        for _ in range(30):
            finished += await finish(q, 2)
            await asyncio.sleep(HOUR_S)
        await tidy(q)
    newest = [*reversed(finished)]
    archive = archive_of(storage)
    everything = await ids_of(archive.jobs(newest_first=True))
    assert sorted(everything[:2]) == sorted(newest[:2])
    assert {*everything} == {*finished}
    times = [job.finished_at async for job in archive.jobs(newest_first=True)]
    assert times == sorted(times, reverse=True)
    since, until = START + 10 * HOUR, START + 20 * HOUR
    chosen = await ids_of(archive.jobs(since=since, until=until, newest_first=True))
    assert {*chosen} == {*await ids_of(archive.jobs(since=since, until=until))} != set()
    before = storage.object_reads
    async for _ in archive.jobs(newest_first=True):
        break
    assert storage.object_reads - before <= 1


async def test_questions_that_cannot_be_answered_are_refused():
    archive = Archive(FaultyStorage())
    with pytest.raises(ConfigurationError, match="with its time zone"):
        await ids_of(archive.jobs(since=datetime(2026, 1, 1)))  # noqa: DTZ001
    with pytest.raises(ConfigurationError, match="with its time zone"):
        await ids_of(archive.jobs(until=datetime(2026, 1, 1)))  # noqa: DTZ001
    with pytest.raises(ConfigurationError, match="one of completed, dead, cancelled, expired, not 'done'"):
        await ids_of(archive.jobs(status="done"))
    assert await ids_of(archive.jobs()) == []


def test_code_without_an_event_loop_reads_the_same(tmp_path):
    storage = LocalFileSystemStorage(tmp_path / "queue.json")

    async def main():
        return [await finish(DirectQueue(storage, Settings(archive_jobs_max=2))) for _ in range(3)]

    first, *others = asyncio.run(main())
    archive = Archive.open(f"file://{tmp_path}/queue.json")
    assert [job.id for job in archive.jobs_sync(status="completed")] == [*first, *others[0], *others[1]]
    for job in archive.jobs_sync():
        assert job.id == first[0]
        break


@virtual_time
async def test_one_job_is_found_without_reading_what_finished_before_it_was_made():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = []
        for _ in range(10):
            ids.append((await finish(q))[1])
            await asyncio.sleep(DAY_S)
    archive = archive_of(storage)
    assert (await archive.find(ids[8])).id == ids[8]
    assert storage.object_reads == 2, "a day earlier, for clocks may differ"
    assert await archive.find("no-such-job") is None
    assert await archive.find("019b76da-a800-7a06-9c99-d2955c30ed8a") is None


@virtual_time
async def test_what_is_finished_is_found_from_then_on_wherever_it_is():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=3, archive_after_s=600) as q:
        ids = []
        for _ in range(7):
            ids += await finish(q, 1)
            assert await ids_of(archive_of(storage).jobs()) == ids
            assert (await archive_of(storage).find(ids[-1])).id == ids[-1]
            await asyncio.sleep(1)


@virtual_time
async def test_the_small_objects_of_a_past_hour_become_one_and_the_hour_is_left_in_peace_before():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await finish_batches(q, 4)
        await tidy(q)
        assert len(objects_of(storage)) == 4
        await asyncio.sleep(HOUR_S)
        await tidy(q)
        assert len(objects_of(storage)) == 4, "some may come late"
        await asyncio.sleep(HOUR_S / 6)
        await tidy(q)
        assert len(objects_of(storage)) == 5, "somebody may be reading the small ones"
        assert await ids_of(archive_of(storage).jobs()) == ids, "each once, while all of them are there"
        await asyncio.sleep(HOUR_S + 100)
        await tidy(q)
        assert len(objects_of(storage)) == 1
        before = storage.object_reads
        assert await ids_of(archive_of(storage).jobs()) == ids
        assert storage.object_reads == before + 1
        assert (await verify(storage)).is_sound


@pytest.mark.parametrize("already_read", range(1, 8))
@virtual_time
async def test_a_reader_goes_on_after_a_compaction_and_sees_each_job_once(already_read):
    storage, damages = FaultyStorage(), []
    async with broker(storage) as q:
        ids = await finish_batches(q, 3)
        # These are in queue.json when the reader begins, and compacted with the others later.
        ids += await finish(q, 1)
        reader = archive_of(storage, damages).jobs()
        read = [(await anext(reader)).id for _ in range(already_read)]
        await asyncio.sleep(1.3 * HOUR_S)
        await tidy(q)
        await asyncio.sleep(1.1 * HOUR_S)
        await tidy(q)
        assert len(objects_of(storage)) == 1
        read += await ids_of(reader)
    assert Counter(read) == Counter(ids)
    assert damages == []


async def compacted(storage, q, batches=3):
    """An hour that was compacted; return its jobs, and its small objects, which are gone."""
    ids = await finish_batches(q, batches)
    small = {name: storage.beside[name] for name in objects_of(storage)}
    await asyncio.sleep(1.3 * HOUR_S)
    await tidy(q)
    await asyncio.sleep(1.1 * HOUR_S)
    await tidy(q)
    assert len(objects_of(storage)) == 1
    return ids, small


@virtual_time
async def test_an_object_that_comes_back_after_its_compaction_changes_nothing():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids, small = await compacted(storage, q)
        storage.beside.update(small)
        assert await ids_of(archive_of(storage).jobs()) == ids
        assert (await verify(storage)).is_sound
        await tidy(q)
        assert len(objects_of(storage)) == 1


@virtual_time
async def test_what_comes_late_to_a_compacted_hour_is_read_and_joins_the_others():
    storage = FaultyStorage()
    async with broker(storage) as q, broker(storage, skew=-2 * HOUR) as behind:
        ids, _ = await compacted(storage, q)
        [whole] = objects_of(storage)
        # From a worker whose clock is behind.
        ids += await finish_batches(behind, 1)
        assert len(objects_of(storage, whole[:22])) == 2
        assert await ids_of(archive_of(storage).jobs()) == ids
        assert (await verify(storage)).is_sound
        await tidy(q)
        await tidy(q)
        await asyncio.sleep(1.1 * HOUR_S)
        await tidy(q)
        assert len(objects_of(storage)) == 1
        assert objects_of(storage) != [whole]
        assert await ids_of(archive_of(storage).jobs()) == ids


@virtual_time
async def test_a_queue_json_that_was_put_back_from_before_a_compaction_is_told_of():
    storage, damages = FaultyStorage(), []
    async with broker(storage) as q:
        ids, _ = await compacted(storage, q)
    old = next(content for content in storage.versions if b'"archived"' in content)
    await storage.inner.write(old, (await storage.inner.read())[1])
    assert len(await ids_of(archive_of(storage, damages).jobs())) < len(ids)
    assert "newer than queue.json" in str(damages[0])
    assert not (await verify(storage)).is_sound


DAMAGES = {
    "a line": (lambda c: c.replace(b'{"v"', b'{"v', 1), [(2, "no archived job")], 5),
    "a line of something else": (lambda c: c.replace(b'{"v"', b'7,\n{"v"', 1), [(2, "no archived job")], 6),
    "cut": (lambda c: c[:-20], [(3, "ends too soon"), (3, "no archived job")], 5),
    "empty": (lambda c: b"", [(1, "no JSON array")], 4),
    "not JSON": (lambda c: b"<html>not found</html>", [(1, "no JSON array")], 4),
    "of a newer format": (lambda c: c.replace(b'"v":1', b'"v":2', 1), [(2, "upgrade bucketq")], 5),
    "not UTF-8": (lambda c: c.replace(b"mail", b"m\xffil", 1), [(2, "no archived job")], 5),
}


@pytest.mark.parametrize("kind", DAMAGES)
@virtual_time
async def test_damage_is_reported_by_name_and_line_and_the_rest_is_read(kind):
    storage, damages = FaultyStorage(), []
    damage, told, readable = DAMAGES[kind]
    async with broker(storage) as q:
        ids = await finish_batches(q, 3)
    name = objects_of(storage)[1]
    storage.beside[name] = damage(storage.beside[name][0]), START
    read = await ids_of(archive_of(storage, damages).jobs())
    assert len(read) == readable
    assert set(read) <= set(ids)
    assert [(found.name, found.line) for found in damages] == [(name, line) for line, _ in told]
    assert all(reason in found.reason for found, (_, reason) in zip(damages, told, strict=True))


@virtual_time
async def test_an_object_that_vanishes_under_a_reader_is_reported_and_the_rest_is_read(caplog):
    storage, damages = FaultyStorage(), []
    async with broker(storage) as q:
        ids = await finish_batches(q, 3)
    reader, silent = archive_of(storage, damages).jobs(), archive_of(storage).jobs()
    assert (await anext(reader)).id == (await anext(silent)).id == ids[0]
    gone = objects_of(storage)[1]
    del storage.beside[gone]
    assert await ids_of(reader) == await ids_of(silent) == [ids[1], *ids[4:]]
    assert [(found.name, found.line) for found in damages] == [(gone, None)]
    assert gone in caplog.text, "who does not ask for it finds it in the log"


@virtual_time
async def test_whoever_looks_for_one_job_decodes_no_others():
    storage, damages = FaultyStorage(), []
    async with broker(storage) as q:
        first, second = await finish(q)
    (name,) = objects_of(storage)
    content = storage.beside[name][0].replace(b'"entrypoint"', b"damaged", 1)
    storage.beside[name] = content, START
    archive = archive_of(storage, damages)
    found = [await archive.find(job_id) for job_id in (second, "nobody")]
    assert [job and job.id for job in found] == [second, None]
    assert damages == []
    assert await archive.find(first) is None
    assert [(damage.name, damage.line) for damage in damages] == [(name, 2)]


@virtual_time
async def test_a_damaged_object_is_left_as_it_is_by_compaction():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await finish_batches(q, 3)
        name = objects_of(storage)[1]
        storage.beside[name] = storage.beside[name][0][:-20], START
        await asyncio.sleep(3 * HOUR_S)
        await tidy(q)
        assert len(objects_of(storage)) == 3


async def days_of(storage, q, days):
    for _ in range(days):
        await finish(q)
        await asyncio.sleep(DAY_S)


@virtual_time
async def test_only_whole_days_that_are_old_enough_are_removed_and_they_are_counted():
    storage = FaultyStorage()
    async with broker(storage, archive_keep_days=3, archive_payloads=True, payload_inline_max=50) as q:
        for _ in range(8):
            await q.enqueue("mail", b"x" * 100)
            await q.ack((await q.dequeue())[0])
            await finish(q, 1)
            await asyncio.sleep(DAY_S)
        await finish(q)
        await tidy(q)
        await tidy(q)
        assert {name[8:18] for name in objects_of(storage)} == {f"2026-01-{day:02}" for day in (6, 7, 8, 9)}
        assert len([name for name in objects_of(storage) if "/payloads/" in name]) == 3
        document = await storage.document()
        assert document["expired_total"] == 10
        assert sorted(document["archived"]) == [f"2026-01-{day:02}" for day in (6, 7, 8, 9)]
        assert len(await ids_of(archive_of(storage).jobs())) == 8
        assert (await verify(storage)).is_sound


@virtual_time
async def test_retention_goes_on_where_a_crash_left_it():
    async def refuse(name):
        raise StorageError("injected: no deletes today")

    storage = FaultyStorage()
    async with broker(storage) as q:
        await days_of(storage, q, 6)
    delete, storage.objects.delete = storage.objects.delete, refuse
    async with broker(storage, archive_keep_days=2) as q:
        await tidy(q)
    assert (await storage.document())["expired_total"] == 6, "counted out, and still there"
    assert len(objects_of(storage)) == 6
    assert len(await ids_of(archive_of(storage).jobs())) == 6
    assert (await verify(storage)).is_sound
    storage.objects.delete = delete
    async with broker(storage, archive_keep_days=2) as q:
        await tidy(q)
    assert len(objects_of(storage)) == 3
    document = await storage.document()
    assert (document["expired_total"], document.get("expired", {})) == (6, {})
    assert (await verify(storage)).is_sound


@virtual_time
async def test_a_day_that_is_compacted_while_it_is_removed_does_not_come_back():
    inner = InMemoryStorage()
    storage, other = FaultyStorage(inner), FaultyStorage(inner)
    other.objects._created_at = storage.objects._created_at
    settings = Settings(archive_jobs_max=2, archive_keep_days=3)
    q = DirectQueue(storage, settings, clock=VirtualClock())
    for _ in range(3):
        await finish_batches(q, 1)
        await asyncio.sleep(1)
    await asyncio.sleep(10 * DAY_S)
    await finish_batches(q, 1)
    create = storage.objects.create

    async def late(name, content):
        storage.objects.create = create
        await DirectQueue(other, settings, clock=VirtualClock()).collect_garbage()
        await create(name, content)

    storage.objects.create = late
    await q.collect_garbage()
    await q.collect_garbage()
    assert [name for name in objects_of(storage) if "2026-01-01" in name] == []


@pytest.mark.parametrize("finishes", [False, True])
@virtual_time
async def test_a_clock_that_is_years_ahead_does_not_empty_the_archive(finishes):
    storage = FaultyStorage()
    async with broker(storage, archive_keep_days=30) as q:
        await days_of(storage, q, 5)
    async with broker(storage, skew=timedelta(days=3650), archive_keep_days=30) as ahead:
        late = await finish(ahead) if finishes else []
        await tidy(ahead)
        await tidy(ahead)
    assert len(await ids_of(archive_of(storage).jobs())) == 10 + len(late)
