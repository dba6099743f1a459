"""Large payloads: objects beside the queue that come and go with their jobs."""

import asyncio

import pytest
from msgspec.structs import replace

from bucketq import (
    AccessDeniedError,
    BrokerQueue,
    DirectQueue,
    InMemoryStorage,
    Job,
    JobStatus,
    ObjectNotFoundError,
    PayloadError,
    Settings,
    StorageError,
)
from bucketq.broker.served import ServedQueue
from bucketq.operation import Enqueue, EnqueueBatch
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyObjects, FaultyStorage


class Refusing(FaultyObjects):
    async def read(self, name):
        raise AccessDeniedError("injected: 403")


LARGE = bytes(range(256)) * 40


@pytest.fixture(params=[BrokerQueue, DirectQueue], ids=["broker", "direct"])
def open_queue(request):
    def open_queue(storage, **settings):
        settings = Settings(**{"payload_inline_max": 1000} | settings)
        return request.param(storage, settings=settings, clock=VirtualClock())

    return open_queue


def contents(storage):
    """The contents of the objects beside the queue."""
    return [content for content, _ in storage.beside.values()]


@virtual_time
async def test_a_large_payload_lives_beside_the_queue_for_as_long_as_its_job(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        job = await q.enqueue("mail", LARGE)
        assert job.payload == LARGE
        assert contents(storage) == [LARGE]
        assert len((await storage.inner.read())[0]) < 1000
        [claimed] = await q.dequeue()
        assert (claimed.id, claimed.payload) == (job.id, LARGE)
        await q.nack(claimed, "try again")
        [again] = await q.dequeue()
        assert again.payload == LARGE
        await q.ack(again)
        await asyncio.sleep(1)
        assert storage.names == set()


@virtual_time
async def test_the_object_is_there_before_the_job(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        storage.object_latency_s = 10
        enqueue = asyncio.create_task(q.enqueue("mail", LARGE))
        await asyncio.sleep(9)
        assert (contents(storage), storage.writes) == ([], 0)
        await enqueue
        [job] = (await storage.document())["jobs"]
        assert job["payload_object"] in storage.beside
        storage.object_latency_s = 0


@virtual_time
async def test_a_dead_job_keeps_its_payload(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        job = await q.enqueue("mail", LARGE, max_attempts=1)
        [claimed] = await q.dequeue()
        await q.nack(claimed, "boom")
        await asyncio.sleep(1)
        dead = await q.find(job.id)
        assert dead.status is JobStatus.DEAD
        assert await q.fetch_payload(dead) == LARGE


@virtual_time
async def test_a_transaction_and_enqueue_many_take_large_payloads_too(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, hot_jobs_max=10) as q:
        async with q.transaction() as t:
            job = t.enqueue("next", LARGE)
            t.enqueue("next", b"small")
            assert job.payload == LARGE
        await q.enqueue_many("few", [LARGE, b"small"])
        await q.enqueue_many("many", [LARGE + bytes([number]) for number in range(20)])
        assert sum(name.startswith("payloads/") for name in storage.names) == 1 + 1 + 20
        jobs = await q.dequeue(batch_size=50)
        assert [job.payload for job in jobs[:4]] == [LARGE, b"small"] * 2
        assert [job.payload for job in jobs[4:]] == [LARGE + bytes([number]) for number in range(20)]
        assert await q.ack_many(jobs) == []
        await asyncio.sleep(1)
        assert storage.names == set()


@virtual_time
async def test_a_refused_transaction_leaves_no_payload_behind(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        with pytest.raises(Exception, match="nobody"):
            async with q.transaction() as t:
                t.enqueue("next", LARGE)
                t.ack("nobody")
        assert storage.creates == 1
        assert storage.names == set()


@virtual_time
async def test_a_payload_beyond_the_hard_limit_is_refused(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, payload_bytes_max=5000) as q:
        for refused in (q.enqueue("mail", LARGE), q.enqueue_many("mail", [b"fine", LARGE])):
            with pytest.raises(PayloadError, match="10240 bytes; the limit is 5000"):
                await refused
        with pytest.raises(PayloadError):
            async with q.transaction() as t:
                t.enqueue("mail", LARGE)
        assert (await q.stats()).enqueued_total == 0
        assert storage.creates == 0
        assert (await q.enqueue("mail", LARGE[:5000])).payload == LARGE[:5000]


@pytest.mark.parametrize("damage", ["gone", "cut short"])
@virtual_time
async def test_a_job_whose_payload_is_lost_is_dead_and_the_next_one_is_served(open_queue, damage):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        lost = await q.enqueue("mail", LARGE)
        kept = await q.enqueue("mail", LARGE * 2)
        if damage == "gone":
            del storage.beside[lost.payload_object]
        else:
            storage.beside[lost.payload_object] = LARGE[:-1], None
        [job] = await q.dequeue()
        assert (job.id, job.payload) == (kept.id, LARGE * 2)
        dead = await q.find(lost.id)
        assert dead.status is JobStatus.DEAD
        assert "its payload is lost" in dead.error
        assert lost.payload_object in dead.error
        with pytest.raises(ObjectNotFoundError if damage == "gone" else PayloadError):
            await q.fetch_payload(dead)


@virtual_time
async def test_a_batch_serves_the_jobs_whose_payloads_are_whole(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        jobs = [await q.enqueue("mail", LARGE + bytes([number])) for number in range(5)]
        del storage.beside[jobs[2].payload_object]
        served = await q.dequeue(batch_size=5)
        assert [job.payload[-1] for job in served] == [0, 1, 3, 4]
        assert await q.dequeue() == []
        assert (await q.stats()).dead == 1


@virtual_time
async def test_a_claim_whose_payload_cannot_be_fetched_goes_back_and_costs_no_attempt(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, retry_for_s=5) as q:
        await q.enqueue("mail", LARGE)
        storage.object_faults.extend(["lost request"] * 1000)
        with pytest.raises(StorageError, match="connection refused"):
            await q.dequeue()
        storage.object_faults.clear()
        [job] = (await q.read_state()).queued_jobs()
        assert job.attempts == 0
        [claimed] = await q.dequeue()
        assert (claimed.payload, claimed.attempts) == (LARGE, 1)


@virtual_time
async def test_a_payload_that_the_storage_refuses_does_not_hold_up_the_queue_for_ever(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        job = await q.enqueue("mail", LARGE, max_attempts=2)
        await q.enqueue("mail", b"next")
        storage.objects = Refusing(storage)
    async with open_queue(storage) as q:
        for _ in range(2):
            with pytest.raises(AccessDeniedError):
                await q.dequeue()
        assert [job.payload for job in await q.dequeue()] == [b"next"]
        dead = await q.find(job.id)
        assert (dead.status, "injected: 403" in dead.error) == (JobStatus.DEAD, True)


@virtual_time
async def test_a_short_trouble_of_the_storage_is_ridden_out(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        storage.object_faults.extend(["lost answer", "slow down", "lost request"])
        await q.enqueue("mail", LARGE)
        assert contents(storage) == [LARGE]
        storage.object_faults.extend(["lost answer", "slow down", "lost request"])
        [claimed] = await q.dequeue()
        assert (claimed.payload, claimed.attempts) == (LARGE, 1)


@virtual_time
async def test_a_dequeue_that_is_cancelled_while_it_fetches_gives_its_claim_back_at_once(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue("mail", LARGE)
        storage.object_latency_s = 60
        leaving = asyncio.create_task(q.dequeue())
        await asyncio.sleep(1)
        assert (await q.stats()).in_progress == 1
        leaving.cancel()
        await asyncio.sleep(1)
        [job] = (await q.read_state()).queued_jobs()
        assert job.attempts == 0
        storage.object_latency_s = 0


@virtual_time
async def test_a_found_job_leaves_its_payload_where_it_is_until_it_is_asked_for(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        large, small = await q.enqueue("mail", LARGE), await q.enqueue("mail", b"small")
        found = await q.find(large.id)
        assert (found.payload, found.payload_size, storage.object_reads) == (b"", len(LARGE), 0)
        assert await q.fetch_payload(found) == LARGE
        assert await q.fetch_payload(await q.find(small.id)) == b"small"


@virtual_time
async def test_a_two_method_adapter_keeps_large_payloads_in_the_file(open_queue):
    class TwoMethods:
        def __init__(self):
            inner = InMemoryStorage()
            self.read, self.write = inner.read, inner.write

    async with open_queue(TwoMethods()) as q:
        job = await q.enqueue("mail", LARGE)
        assert (job.payload_object, (await q.find(job.id)).payload) == (None, LARGE)
        await q.enqueue_many("mail", [LARGE])
        assert [job.payload for job in await q.dequeue(batch_size=2)] == [LARGE, LARGE]


@virtual_time
async def test_what_follows_a_batch_has_its_large_payload_in_an_object_whoever_sent_it():
    storage, clock = FaultyStorage(), VirtualClock()
    first = Job(id="first", entrypoint="mail", batch="then", created_at=clock.now())
    then = replace(first, id="then", payload=LARGE)
    async with ServedQueue(storage, Settings(payload_inline_max=1000), clock) as q:
        await q.perform("s", 1, 0, [EnqueueBatch(then, Enqueue((first,)), clock.now())])
        found = await q.find("then")
        assert (found.payload, found.payload_size) == (b"", len(LARGE))
        await q.ack_many(await q.dequeue())
        [job] = await q.dequeue()
        assert (job.id, job.payload) == ("then", LARGE)
