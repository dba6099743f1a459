"""Listing jobs reads what is needed and no more, also while others use segments up."""

import asyncio
from datetime import timedelta

import pytest

from bucketq import CorruptStateError, DirectQueue, Settings
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

TINY = Settings(hot_jobs_max=4, segment_jobs_max=10)


def counted(storage):
    """Count the reads of segments."""
    reads, read = [], storage.objects.read

    async def counting(name):
        reads.append(name)
        return await read(name)

    storage.objects.read = counting
    return reads


async def deep_queue(jobs=100):
    storage = FaultyStorage()
    clock = VirtualClock()
    q = DirectQueue(storage, TINY, clock=clock)
    ids = await q.enqueue_many("mail", range(jobs))
    return q, storage, clock, list(ids)


async def listed(jobs):
    return [job.id async for job in jobs]


@virtual_time
async def test_no_more_segments_are_read_than_a_list_needs():
    q, storage, _, ids = await deep_queue()
    segments = len((await q.read_file()).backlog)
    assert segments > 5
    reads = counted(storage)
    assert await listed(q.jobs(limit=3)) == ids[:3]
    assert len(reads) <= 1
    reads.clear()
    assert await listed(q.jobs(limit=35)) == ids[:35]
    assert len(reads) <= 4
    reads.clear()
    assert await listed(q.jobs(status="dead")) == []
    assert await listed(q.jobs(entrypoint="other")) == []
    assert reads == []
    assert await listed(q.jobs()) == ids
    assert len(reads) == segments


@virtual_time
async def test_age_counts_from_the_enqueueing():
    q, _, _, ids = await deep_queue(30)
    await asyncio.sleep(60)
    later = await q.enqueue("mail", "later")
    assert await listed(q.jobs(older_than=60)) == []
    await asyncio.sleep(1)
    assert await listed(q.jobs(older_than=timedelta(minutes=1))) == ids
    await asyncio.sleep(60)
    assert await listed(q.jobs(older_than=60)) == [*ids, later.id]


@virtual_time
async def test_the_list_goes_on_behind_the_last_job_when_a_segment_is_used_up_meanwhile():
    q, storage, clock, ids = await deep_queue()
    other = DirectQueue(storage, TINY, clock=clock)
    jobs = q.jobs()
    begun = [(await anext(jobs)).id for _ in range(5)]
    before = set(storage.beside)
    taken = await other.dequeue(batch_size=50)
    assert before - set(storage.beside), "segments are gone"
    rest = await listed(jobs)
    assert begun == ids[:5]
    assert rest[-50:] == ids[50:]
    assert len({*begun, *rest}) == len(begun) + len(rest), "none is told twice"
    assert {*rest[:-50]} <= {job.id for job in taken}


@virtual_time
async def test_a_segment_that_is_gone_for_good_is_told():
    q, storage, _, _ = await deep_queue()
    gone = next(name for name in sorted(storage.beside) if name.startswith("backlog/"))
    del storage.beside[gone]
    with pytest.raises(CorruptStateError, match=gone):
        await listed(q.jobs())
