"""Collection: what crashes leave beside the queue goes in time, and nothing else does."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from bucketq import (
    CorruptStateError,
    DirectQueue,
    LocalFileSystemStorage,
    Settings,
    StorageError,
)
from bucketq.object_name import payload_name, segment_name
from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

HOUR_S = 3600


broker = queues_with(
    hot_jobs_max=10,
    segment_jobs_max=40,
    payload_inline_max=100,
    collect_after_s=100,
    stale_after_s=100 * HOUR_S,
)


async def leave(storage, version, number=0):
    """Leave the objects that a crash would have left; return their names."""
    names = segment_name(version, f"{number:016x}"), payload_name(version, f"{number:016x}")
    for name in names:
        await storage.objects.create(name, b"left by a crash")
    return set(names)


def names_of(infos):
    return {info.name for info in infos}


@virtual_time
async def test_a_dry_run_tells_what_would_go_and_removes_nothing():
    storage = FaultyStorage()
    left = await leave(storage, 0)
    async with broker(storage) as q:
        await q.enqueue("mail", 1)
        before = await storage.inner.read()
        assert await q.collect_garbage(dry_run=True) == [], "they are too young"
        await asyncio.sleep(101)
        assert names_of(await q.collect_garbage(dry_run=True)) == left
        assert storage.names == left
        assert await storage.inner.read() == before
        assert names_of(await q.collect_garbage()) == left
        assert storage.names == set()


@virtual_time
async def test_the_young_stay_and_the_old_go():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail", 1)
        old = await leave(storage, 1)
        await asyncio.sleep(60)
        await q.enqueue("mail", 2)
        young = await leave(storage, 2, number=1)
        await asyncio.sleep(60)
        assert names_of(await q.collect_garbage()) == old
        assert storage.names == young
        await asyncio.sleep(60)
        assert names_of(await q.collect_garbage()) == young


@virtual_time
async def test_what_is_referred_to_stays_however_old():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("in the file", b"x" * 101)
        await q.enqueue_many("in segments", [b"%d" % number * 101 for number in range(200)])
        beside = storage.names
        assert len(beside) == 1 + 200 + 5
        left = await leave(storage, 0)
        await asyncio.sleep(HOUR_S)
        assert names_of(await q.collect_garbage()) == left
        assert storage.names == beside
        jobs = await q.dequeue(batch_size=300)
        assert [job.payload for job in jobs[1:]] == [b"%d" % number * 101 for number in range(200)]
        await asyncio.sleep(HOUR_S)
        assert await q.collect_garbage() == []
        assert len(storage.names) == 201, "the payloads of running jobs"
        assert await q.ack_many(jobs) == []
        await asyncio.sleep(1)
        assert storage.names == set()


@virtual_time
async def test_nothing_is_collected_while_it_cannot_be_told_what_is_referred_to():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue_many("mail", [b"x" * 101] * 100)
        segment = min(storage.names)
        damaged = storage.beside.pop(segment)
        await leave(storage, 0)
        await asyncio.sleep(HOUR_S)
        beside = storage.names
        with pytest.raises(CorruptStateError, match=segment):
            await q.collect_garbage()
        assert storage.names == beside
        storage.beside[segment] = damaged
        assert len(await q.collect_garbage()) == 2


@virtual_time
async def test_a_load_under_way_is_not_collected_for_as_long_as_it_goes_on():
    storage = FaultyStorage()
    storage.object_latency_s = 60
    async with broker(storage) as theirs, broker(storage) as ours:
        load = asyncio.create_task(theirs.enqueue_many("mail", range(200)))
        await asyncio.sleep(250)
        await ours.enqueue("other")
        assert len(storage.names) == 4
        assert await ours.collect_garbage() == []
        await load
        storage.object_latency_s = 0
        assert [job.json() for job in await ours.dequeue("mail", batch_size=200)] == list(range(200))


@virtual_time
async def test_a_load_that_comes_after_its_objects_were_collected_is_refused_and_can_be_repeated():
    storage = FaultyStorage()

    def payloads():
        for number in range(200):
            if number == 100:
                storage.object_latency_s = HOUR_S
            yield number

    async with broker(storage) as theirs, broker(storage) as ours:
        load = asyncio.create_task(theirs.enqueue_many("mail", payloads()))
        await asyncio.sleep(200)
        storage.object_latency_s = 0
        begun = storage.names
        assert len(begun) == 2
        await ours.enqueue("other")
        assert names_of(await ours.collect_garbage()) == begun
        with pytest.raises(StorageError, match=r"may have been collected as garbage .* do it again"):
            await load
        assert (await ours.read_state()).stats.queued == 1, "nothing dangles"
        await theirs.enqueue_many("mail", range(200))
        assert [job.json() for job in await ours.dequeue("mail", batch_size=200)] == list(range(200))
        await asyncio.sleep(HOUR_S)
        await ours.enqueue("other")
        await ours.collect_garbage()
        assert storage.names == set(), "what came too late goes with the next collection"


@virtual_time
async def test_objects_of_others_are_left_alone_and_do_no_harm():
    storage = FaultyStorage()
    others = {
        "readme.txt",
        "archive/000000000001-0000000000000001.json",
        "backlog/notes.json",
        "backlog/000000000001-copy.json",
        "payloads/202601011200-export.csv",
    }
    for name in others:
        await storage.objects.create(name, b"somebody's own")
    async with broker(storage) as q:
        await q.enqueue("mail", 1)
        await asyncio.sleep(HOUR_S)
        assert await q.collect_garbage() == []
        assert others <= set(storage.beside)
        await q.enqueue("mail", b"x" * 101)


@virtual_time
async def test_what_a_deleted_queue_left_does_no_harm_to_the_next_one_of_its_name():
    storage = FaultyStorage()
    left = await leave(storage, 5000)
    async with broker(storage) as q:
        await q.enqueue("mail", 1)
        await asyncio.sleep(HOUR_S)
        await q.collect_garbage()
        await q.enqueue("mail", b"x" * 101)
        await q.enqueue_many("mail", range(100))
        assert (await q.stats()).queued == 102
    assert left <= storage.names


@virtual_time
async def test_an_open_queue_collects_by_itself_now_and_then():
    storage = FaultyStorage()
    left = await leave(storage, 0)
    async with broker(storage, collect_after_s=24 * HOUR_S) as q:
        for hour in range(30):
            await q.enqueue("mail", hour)
            await asyncio.sleep(HOUR_S)
            assert left <= storage.names or hour >= 24
        assert not left & storage.names
        assert storage.lists <= 2 * 30


LOADER = """
import asyncio, sys
from bucketq import BrokerQueue, LocalFileSystemStorage, Settings

def payloads():
    for number in range(1000):
        if number == 900:
            print("in the middle", flush=True)
            sys.stdin.read()
        yield {"number": number}

async def load():
    settings = Settings(hot_jobs_max=10, segment_jobs_max=250)
    async with BrokerQueue(LocalFileSystemStorage(sys.argv[1]), settings=settings) as q:
        await q.enqueue_many("mail", payloads())

asyncio.run(load())
"""


async def test_a_load_killed_in_the_middle_enqueues_nothing_and_what_it_left_is_collected(tmp_path):
    path = tmp_path / "queue.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", LOADER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as child:  # noqa: ASYNC220
        assert child.stdout.readline() == b"in the middle\n"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    q = DirectQueue(LocalFileSystemStorage(path), Settings(collect_after_s=0.001))
    assert (await q.stats()).enqueued_total == 0
    left = {f"backlog/{file.name}" for file in (tmp_path / "queue/backlog").iterdir()}
    assert len(left) == 3
    assert names_of(await q.collect_garbage(dry_run=True)) == left
    assert names_of(await q.collect_garbage()) == left
    assert list((tmp_path / "queue/backlog").iterdir()) == []
    await q.enqueue("mail", 1)
    assert len(await q.dequeue()) == 1
