"""Imports beside each other, and beside workers: each job comes into the queue once, by its id."""

import asyncio
from collections import Counter

import pytest

from bucketq import BrokerQueue, ConfigurationError, Settings
from bucketq.archive import Archive
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.transfer import export, intake, take_in
from tests.faults.faulty import FaultyStorage

SMALL = Settings(hot_jobs_max=20, segment_jobs_max=40, archive_jobs_max=15, retry_for_s=600)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(intake, "_PART_LINES", 30)


def queue(storage):
    return BrokerQueue(storage, settings=SMALL, clock=VirtualClock())


async def exported(q, path):
    path.write_bytes(b"".join([line async for line in export(q)]))
    return path


async def two_files(folder):
    """Two exports of one queue, with jobs that are in both; and how many jobs there are."""
    async with queue(FaultyStorage()) as q:
        await q.enqueue_many("mail", range(200))
        await q.enqueue_batch("mail", range(50), then=("publish", b""))
        for number in range(20):
            await q.enqueue("mail", number, key=f"k{number}")
        first = await exported(q, folder / "first.jsonl")
        await q.ack_many(await q.dequeue("mail", batch_size=60))
        await q.enqueue_many("mail", range(200, 290))
        return first, await exported(q, folder / "second.jsonl"), 361


async def served(q, is_over):
    """Serve and finish jobs until there are none, and nothing can bring more."""
    done = Counter()
    while (await q.stats()).live or not is_over():
        jobs = await q.dequeue(["mail", "publish"], batch_size=7, wait=5)
        done.update(job.id for job in jobs)
        await q.ack_many(jobs)
    return done


async def imported(storage, path):
    async with queue(storage) as q:
        return await take_in(q, path)


async def check(storage, jobs, told):
    """Each job came once, each was finished once, and the imports tell as many."""
    state = await queue(storage).read_file()
    assert state.enqueued_total == jobs
    assert sum(one.added for one in told) + 1 == jobs, "and the one that followed the batch"
    assert [one.refused for one in told] == [0] * len(told)
    archived = Counter([job.id async for job in Archive(storage).jobs()])
    assert archived.total() == len(archived) == state.completed_total == jobs


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_same_file", [True, False])
@virtual_time
async def test_two_imports_at_once_beside_a_worker_add_each_job_once(tmp_path, seed, is_same_file):
    first, second, jobs = await two_files(tmp_path)
    storage = FaultyStorage()
    storage.latency_s, storage.object_latency_s = 0.02, 0.03
    imports = [imported(storage, first), imported(storage, first if is_same_file else second)]
    importing = asyncio.gather(*imports)
    async with queue(storage) as q:
        served_once = await served(q, importing.done)
    assert set(served_once.values()) == {1}
    await check(storage, 271 if is_same_file else jobs, await importing)


@virtual_time
async def test_a_second_import_finds_jobs_in_segments_and_jobs_that_are_in_the_archive(tmp_path):
    first, second, jobs = await two_files(tmp_path)
    storage = FaultyStorage()
    told = [await imported(storage, first)]
    async with queue(storage) as q:
        assert len((await q.read_file()).backlog) > 1
        for _ in range(5):
            await q.ack_many(await q.dequeue("mail", batch_size=20))
    told.append(await imported(storage, second))
    assert (told[1].added, told[1].present, told[1].before) == (90, 210, 0)
    async with queue(storage) as q:
        await served(q, lambda: True)
    await check(storage, jobs, told)


@virtual_time
async def test_an_import_adds_nothing_twice_when_a_batch_has_ended_since_the_file_was_written(tmp_path):
    async with queue(FaultyStorage()) as q:
        await q.enqueue_batch("mail", range(3), then=("publish", b""))
        first = await exported(q, tmp_path / "first.jsonl")
        await q.enqueue("mail", "more")
        second = await exported(q, tmp_path / "second.jsonl")
    storage = FaultyStorage()
    assert (await imported(storage, first)).added == 3
    async with queue(storage) as q:
        assert (await served(q, lambda: True)).total() == 4
    assert (await imported(storage, second)).added == 1
    async with queue(storage) as q:
        assert (await served(q, lambda: True)).total() == 1


@virtual_time
async def test_a_job_that_a_file_has_twice_comes_once(tmp_path):
    async with queue(FaultyStorage()) as q:
        await q.enqueue_batch("mail", range(50), then=("publish", b""))
        await q.enqueue_many("mail", range(50))
        whole = await exported(q, tmp_path / "whole.jsonl")
    lines = whole.read_bytes().splitlines(keepends=True)
    jobs = [line for line in lines if line.startswith(b'{"job"')]
    twice = [*lines[:-1], *jobs[:3], jobs[-1], lines[-1].replace(b'"jobs":100', b'"jobs":104')]
    file = tmp_path / "twice.jsonl"
    file.write_bytes(b"".join(twice))
    storage = FaultyStorage()
    told = await imported(storage, file)
    assert (told.added, told.present) == (100, 4)
    async with queue(storage) as q:
        done = await served(q, lambda: True)
    assert set(done.values()) == {1}
    assert len(done) == 101, "the batch has ended"
    assert await imported(storage, file) == told._replace(added=0, before=100)


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (b'"entrypoint":"mail"', b'"entrypoint":"mail","priority":9007199254740993'),
        (b'"entrypoint":"mail"', b'"entrypoint":"mail","attempts":9007199254740993'),
        (b'"entrypoint":"mail"', b'"entrypoint":"mail","redrive_of":"' + b"x" * 100_000 + b'"'),
        (b'"entrypoint":"mail"', b'"entrypoint":"mail","note":"' + b"x" * 300_000 + b'"'),
        (b'"created_at":"20', b'"created_at":"99'),
        (b'"every_s":60.0', b'"every_s":1e308'),
        (b'"rate":1.0', b'"rate":1e-300'),
    ],
)
@virtual_time
async def test_an_import_that_no_queue_takes_changes_nothing(tmp_path, at, change):
    async with queue(FaultyStorage()) as q:
        await q.enqueue("mail")
        await q.schedule("poll", "poll", every=60)
        await q.limit("mail", rate=1)
        path = await exported(q, tmp_path / "file.jsonl")
    content = path.read_bytes()
    assert at in content
    path.write_bytes(content.replace(at, change, 1))
    storage = FaultyStorage()
    with pytest.raises(ConfigurationError, match=r"line .* Nothing was changed"):
        await imported(storage, path)
    assert (await queue(storage).read_file()).version == 0
