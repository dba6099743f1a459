"""Reads that fail are repeated, whatever is read and by whatever way, until the time for it is up."""

import asyncio

import pytest

import bucketq
from bucketq import BrokerQueue, DirectQueue, Settings, StorageError
from bucketq.archive import Archive
from bucketq.broker.serving import serving
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage

SMALL = Settings(hot_jobs_max=20, segment_jobs_max=40, payload_inline_max=1000)
FAILING = 3


async def fill(storage):
    """Waiting and dead jobs in segments, one with a large payload, and one that is archived; their ids."""
    async with BrokerQueue(storage, settings=SMALL, clock=VirtualClock()) as q:
        done = await q.enqueue("done")
        await q.ack_many(await q.dequeue("done"))
        await q.enqueue_many("dies", range(100), max_attempts=1)
        while jobs := await q.dequeue("dies", batch_size=50):
            for job in jobs:
                await q.nack(job, "boom")
        large = await q.enqueue("large", b"x" * 5000)
        jobs = await q.enqueue_many("mail", range(200))
        await asyncio.sleep(0.1)
        segments = (await q.read_file()).backlog
        assert {segment.status for segment in segments} == {"dead", "queued"}
    return {"done": done.id, "large": large.id, "mail": jobs[150]}


async def count(jobs):
    return len([job async for job in jobs])


# What to ask of a queue, given the ids of its jobs, and the answer.
ASKED = {
    "jobs": (lambda q, ids: count(q.jobs()), 301),
    "page": (lambda q, ids: paged(q, "queued"), 201),
    "dead": (lambda q, ids: count(q.dead()), 100),
    "redrive_many": (lambda q, ids: q.redrive_many("dies"), 100),
    "discard_many": (lambda q, ids: q.discard_many("dies"), 100),
    "redrive": (lambda q, ids: redriven(q), True),
    "find": (lambda q, ids: found(q.find(ids["mail"])), True),
    "read_job": (lambda q, ids: found(q.read_job(ids["mail"])), True),
    "cancel": (lambda q, ids: found(q.cancel(ids["mail"])), True),
    "read_state": (lambda q, ids: counted(q.read_state()), 301),
    "read_file": (lambda q, ids: counted(q.read_file()), 301),
    "fetch_payload": (lambda q, ids: payload(q, ids["large"]), 5000),
    "result": (lambda q, ids: q.result(ids["done"], timeout=20), None),
    "archive": (lambda q, ids: count(Archive(q.storage).jobs(status="completed")), 1),
    "verify": (lambda q, ids: sound(q), True),
}


async def paged(q, status):
    page, jobs = None, 0
    while page is None or page.next_token:
        page = await q.page(page.next_token if page else "", size=50, status=status)
        jobs += len(page.jobs)
    return jobs


async def redriven(q):
    first = await anext(aiter(q.dead()))
    return await q.redrive(first.id) is not None


async def found(call):
    return await call is not None


async def counted(call):
    return (await call).stats.total


async def payload(q, job_id):
    return len(await q.fetch_payload(await q.find(job_id)))


async def sound(q):
    return (await verify(q.storage)).is_sound


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", [BrokerQueue, DirectQueue])
@virtual_time
async def test_an_embedded_queue_reads_again(asked, kind):
    storage = FaultyStorage()
    ids = await fill(storage)
    call, answer = ASKED[asked]
    q = kind(storage, settings=SMALL, clock=VirtualClock())
    if kind is DirectQueue:
        storage.failing_reads = FAILING
        assert await call(q, ids) == answer
    else:
        async with q:
            storage.failing_reads = FAILING
            assert await call(q, ids) == answer
    assert storage.failing_reads == 0


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_a_client_of_a_broker_is_answered_though_reads_fail(asked, scheme):
    storage = FaultyStorage()
    ids = await fill(storage)
    call, answer = ASKED[asked]
    async with serving(storage, settings=SMALL) as broker:
        address = {"grpc": broker.address, "http": broker.http}[scheme]
        async with bucketq.connect(f"{scheme}://{address}") as q:
            await q.stats()  # now the broker leads
            storage.failing_reads = FAILING
            assert await call(q, ids) == answer
    assert storage.failing_reads == 0


@pytest.mark.parametrize("asked", ["jobs", "page", "dead", "redrive_many", "read_state", "read_file"])
@virtual_time
async def test_an_outage_is_told_when_the_time_is_up(asked):
    storage = FaultyStorage()
    ids = await fill(storage)
    q = DirectQueue(storage, settings=SMALL, clock=VirtualClock())
    storage.is_down, began_s = True, asyncio.get_running_loop().time()
    with pytest.raises(StorageError, match="outage"):
        await ASKED[asked][0](q, ids)
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(SMALL.retry_for_s)
