"""Segments that are damaged, gone, cannot be written or cannot be reached."""

import asyncio
import json

import pytest

from bucketq import (
    AccessDeniedError,
    CorruptStateError,
    DirectQueue,
    LocalFileSystemStorage,
    Settings,
    UnusableStorageError,
)
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyObjects, FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 100, "segment_jobs_max": 400}


class TwoMethods:
    """A user's own adapter: nothing but the port."""

    def __init__(self, inner):
        self._inner = inner

    async def read(self):
        return await self._inner.read()

    async def write(self, content, if_match=None):
        return await self._inner.write(content, if_match)


broker = queues_with(**SMALL)


async def drain(q, entrypoint=None):
    served = []
    while jobs := await q.dequeue(entrypoint, batch_size=50):
        served += [job.json() for job in jobs]
        await q.ack_many(jobs)
    return served


def vanish(storage, name):
    del storage.beside[name]


def cut_short(storage, name):
    content, at = storage.beside[name]
    storage.beside[name] = content[:-100], at


DAMAGES = [vanish, cut_short]


async def two_backlogs(storage):
    """Load two entrypoints; return the name and the content of the first segment of one."""
    async with broker(storage) as q:
        await q.enqueue_many("broken", range(1000))
        await q.enqueue_many("whole", range(1000))
    segments = (await storage.document())["segments"]
    name = next(segment["name"] for segment in segments if segment["entrypoint"] == "broken")
    return name, storage.beside[name]


@pytest.mark.parametrize("damage", DAMAGES)
@virtual_time
async def test_a_damaged_segment_is_named_to_who_needs_it_and_all_goes_on_once_it_is_restored(damage):
    storage = FaultyStorage()
    name, content = await two_backlogs(storage)
    damage(storage, name)
    before = await storage.inner.read()
    async with broker(storage) as q:
        for needing in (q.dequeue("broken"), q.dequeue(), q.read_state()):
            with pytest.raises(CorruptStateError, match=name):
                await needing
        assert await storage.inner.read() == before, "nothing was changed"
        assert await drain(q, "whole") == list(range(1000)), "others go on"
        with pytest.raises(CorruptStateError, match=name):
            await q.dequeue("broken")
        await asyncio.sleep(3600)
        await q.enqueue("other")
        await asyncio.sleep(1)
        storage.beside[name] = content
        assert await drain(q, "broken") == list(range(1000))


@pytest.mark.parametrize("damage", DAMAGES)
@virtual_time
async def test_a_damaged_segment_harms_nobody_who_asked_in_the_same_moment(damage):
    storage = FaultyStorage()
    name, _ = await two_backlogs(storage)
    damage(storage, name)
    async with broker(storage) as q:
        broken, whole = await asyncio.gather(q.dequeue("broken"), q.dequeue("whole"), return_exceptions=True)
        assert isinstance(broken, CorruptStateError)
        assert [job.json() for job in whole] == [0]


@pytest.mark.parametrize("fault", ["lost answer", "lost request", "slow down"])
@virtual_time
async def test_a_create_that_was_not_answered_is_no_failure(fault):
    storage = FaultyStorage()
    async with broker(storage) as q:
        storage.object_faults.extend([fault] * 3)
        await q.enqueue_many("mail", range(1000))
        storage.object_faults.extend([fault] * 3)
        for number in range(1000, 1300):
            await q.enqueue("mail", number)
        await asyncio.sleep(10)
        assert not storage.object_faults
        assert len((await storage.document())["jobs"]) <= 100
        assert await drain(q) == list(range(1300))
    assert storage.names == set()


@virtual_time
async def test_a_load_that_landed_keeps_its_segments_whatever_the_adapter_says_of_it():
    class Broken(FaultyStorage):
        async def write(self, content, if_match=None):
            await super().write(content, if_match)
            raise KeyError("oops")

    storage = Broken()
    async with broker(storage) as q:
        with pytest.raises(KeyError):
            await q.enqueue_many("mail", range(1000))
    storage.__class__ = FaultyStorage
    async with broker(storage) as q:
        assert await drain(q) == list(range(1000))


def test_a_queue_used_for_one_call_in_each_event_loop_overflows_too(tmp_path):
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    q = DirectQueue(storage, Settings(hot_jobs_max=40, segment_jobs_max=100))
    for number in range(300):
        asyncio.run(q.enqueue("mail", number))
    document = json.loads(storage.path.read_bytes())
    assert len(document["jobs"]) <= 40
    beside = {f"backlog/{path.name}" for path in (tmp_path / "queue/backlog").iterdir()}
    assert beside == {segment["name"] for segment in document["segments"]}, "it leaves nothing behind"
    assert asyncio.run(drain(q)) == list(range(300))


@virtual_time
async def test_a_cancelled_dequeue_keeps_no_job_while_the_backlog_is_looked_after():
    storage = FaultyStorage()
    q = DirectQueue(storage, Settings(**SMALL), VirtualClock())
    storage.object_latency_s = 3
    enqueues = [asyncio.create_task(q.enqueue("mail", number)) for number in range(300)]
    await asyncio.sleep(1)
    leaving = asyncio.create_task(q.dequeue())
    await asyncio.sleep(1)
    assert not leaving.done()
    assert (await q.read_state()).stats.in_progress == 1
    leaving.cancel()
    await asyncio.gather(*enqueues)
    [first, *_] = (await q.read_state()).queued_jobs()
    assert (first.json(), first.attempts) == (0, 0)


@virtual_time
async def test_a_backlog_that_a_two_method_adapter_cannot_reach_is_called_that():
    storage = FaultyStorage()
    await two_backlogs(storage)
    async with broker(TwoMethods(storage.inner)) as q:
        for needing in (q.dequeue("broken"), q.read_state()):
            with pytest.raises(UnusableStorageError, match="two methods cannot reach"):
                await needing
        assert (await q.stats()).queued == 2000
        await q.enqueue("small", 1)
        assert [job.json() for job in await q.dequeue("small")] == [1]


@virtual_time
async def test_a_two_method_adapter_keeps_everything_in_one_file():
    storage = FaultyStorage()
    async with broker(TwoMethods(storage), payload_inline_max=0) as q:
        await q.enqueue_many("mail", range(1000))
        for number in range(1000, 1300):
            await q.enqueue("mail", number)
        document = await storage.document()
        assert (len(document["jobs"]), "segments" in document) == (1300, False)
        assert await q.collect_garbage() == []
        assert await drain(q) == list(range(1300))
    assert storage.creates == storage.object_reads == storage.lists == 0


@virtual_time
async def test_a_storage_that_takes_no_other_objects_keeps_a_queue_in_one_file(caplog):
    class NoCreates(FaultyObjects):
        async def create(self, name, content):
            self.storage.creates += 1
            raise AccessDeniedError("injected: 403")

    storage = FaultyStorage()
    storage.objects = NoCreates(storage)
    async with broker(storage) as q:
        for number in range(1000):
            await q.enqueue("mail", number)
        assert (await q.stats()).queued == 1000
        assert storage.creates < 20, "what is denied is not asked for again and again"
        assert await drain(q) == list(range(1000))
        with pytest.raises(AccessDeniedError):
            await q.enqueue_many("mail", range(1000))
        assert (await q.stats()).queued == 0
    assert "injected: 403" in caplog.text
