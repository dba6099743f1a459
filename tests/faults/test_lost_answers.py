"""Promise 2: an operation takes effect exactly once, whatever becomes of its request."""

import asyncio

import pytest

from bucketq import (
    BrokerQueue,
    CASConflictError,
    DirectQueue,
    OutcomeUnknownError,
    Settings,
    StorageError,
    StorageFullError,
)
from bucketq.codec import decode
from bucketq.signatures import WRITERS_MAX
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

FAULTS = ["conflict", "lost answer", "lost, retried", "lost request", "late", "slow down"]


class DirectInContext(DirectQueue):
    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None


@pytest.fixture(params=[BrokerQueue, DirectInContext], ids=["broker", "direct"])
def open_queue(request):
    def open_queue(storage, **settings):
        return request.param(storage, settings=Settings(**settings), clock=VirtualClock())

    return open_queue


@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_one_enqueue_makes_one_job(open_queue, fault):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue("first")
        storage.faults.extend([fault] * 3)
        job = await q.enqueue("mail", b"once")
        await asyncio.sleep(1)
        state = await q.read_state()
        assert [found.id for found in state.queued_jobs("mail")] == [job.id]
        assert state.stats.enqueued_total == 2


@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_the_very_first_write_is_settled_too(open_queue, fault):
    storage = FaultyStorage()
    storage.faults.append(fault)
    async with open_queue(storage) as q:
        await q.enqueue("mail")
        await asyncio.sleep(1)
        assert (await q.read_state()).stats.enqueued_total == 1


@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_a_claim_is_answered_with_what_landed(open_queue, fault):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue_many("mail", range(5))
        storage.faults.extend([fault, fault])
        [job] = await q.dequeue()
        await asyncio.sleep(1)
        assert (await q.read_state()).in_progress_jobs() == (job,)
        storage.faults.append(fault)
        await q.ack(job)
        state = await q.read_state()
        assert (state.stats.completed_total, state.stats.queued) == (1, 4)


@pytest.mark.parametrize("fault", FAULTS)
@virtual_time
async def test_faults_under_a_rival_writer_lose_and_double_nothing(open_queue, fault):
    storage = FaultyStorage()
    async with open_queue(storage) as ours, open_queue(storage) as rival:

        async def produce(q, name):
            for number in range(20):
                await q.enqueue(name, number)
                if number % 3 == 0:
                    storage.faults.append(fault)

        await asyncio.gather(produce(ours, "ours"), produce(rival, "rival"))
        await asyncio.sleep(1)
        state = await ours.read_state()
        for name in ("ours", "rival"):
            assert [job.json() for job in state.queued_jobs(name)] == list(range(20))
    versions = [decode(content).version for content in storage.versions]
    assert versions == sorted(set(versions)), "versions strictly increase"
    assert all(decode(content).is_conserved() for content in storage.versions)


@virtual_time
async def test_an_outage_is_ridden_out(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue("mail", 0)
        storage.is_down = True
        asyncio.get_running_loop().call_later(10, setattr, storage, "is_down", False)
        await asyncio.gather(*(q.enqueue("mail", number) for number in range(1, 20)))
        assert asyncio.get_running_loop().time() >= 10
        [job] = await q.dequeue()
        assert job.json() == 0
        assert (await q.read_state()).stats.enqueued_total == 20


@virtual_time
async def test_an_outage_without_end_is_reported_and_the_queue_recovers(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, retry_for_s=5) as q:
        await q.enqueue("mail", 1)
        storage.is_down = True
        with pytest.raises(StorageError):
            await q.enqueue("mail", 2)
        storage.is_down = False
        assert [job.json() for job in await q.dequeue(batch_size=9)] == [1]


@virtual_time
async def test_a_write_whose_fate_stays_unknown_is_called_that(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, retry_for_s=5) as q:
        await q.enqueue("mail", 1)
        storage.faults.append("lost answer")
        enqueue = asyncio.create_task(q.enqueue("mail", 2))
        while storage.faults:
            await asyncio.sleep(0)
        storage.is_down = True
        with pytest.raises(OutcomeUnknownError):
            await enqueue
        storage.is_down = False
        assert (await q.read_state()).stats.enqueued_total == 2


@virtual_time
async def test_a_write_that_certainly_did_not_land_is_called_that(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, retry_for_s=5) as q:
        await q.enqueue("mail", 1)
        before = await storage.inner.read()
        storage.faults.extend(["full"] * 100)
        with pytest.raises(StorageFullError):
            await q.enqueue("mail", 2)
        assert await storage.inner.read() == before
        storage.faults.clear()
        await q.enqueue("mail", 3)
        storage.faults.extend(["full"] * 2)
        await q.enqueue("mail", 4)
        assert [job.json() async for job in q.jobs()] == [1, 3, 4]


@virtual_time
async def test_an_earlier_try_of_unknown_fate_is_not_forgotten_over_one_that_did_not_land(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, retry_for_s=5) as q:
        await q.enqueue("mail", 1)
        storage.faults.extend(["lost request", *["full"] * 100])
        with pytest.raises(OutcomeUnknownError):
            await q.enqueue("mail", 2)


@virtual_time
async def test_a_landed_write_is_not_called_unchanged_when_what_follows_cannot_be_read(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue("mail", 1)
        storage.faults.append("lost answer")
        storage.latency_s = 1.0
        enqueue = asyncio.create_task(q.enqueue("mail", 2))
        while storage.faults:
            await asyncio.sleep(0.1)
        await storage.inner.write(b'{"format":99}', (await storage.inner.read())[1])
        with pytest.raises(OutcomeUnknownError):
            await enqueue


@virtual_time
async def test_a_signature_that_was_pushed_out_is_not_mistaken_for_a_write_that_never_landed(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage) as q:
        await q.enqueue("mail", 1)
        storage.faults.append("lost answer")
        storage.latency_s = 1.0
        enqueue = asyncio.create_task(q.enqueue("mail", 2))
        while storage.faults:
            await asyncio.sleep(0.1)
        others = FaultyStorage(storage.inner)
        for _ in range(WRITERS_MAX):
            await DirectQueue(others, clock=VirtualClock()).enqueue("other")
        with pytest.raises(OutcomeUnknownError):
            await enqueue
        assert len((await q.read_state()).queued_jobs("mail")) == 2, "and it is not applied again"


@virtual_time
async def test_endless_conflicts_end_in_an_error_that_nothing_was_changed(open_queue):
    class Rival(FaultyStorage):
        async def write(self, content, if_match=None):
            await DirectQueue(self.inner, clock=VirtualClock()).enqueue("rival")
            return await super().write(content, if_match)

    async with open_queue(Rival(), retry_for_s=3) as q:
        with pytest.raises(CASConflictError, match="nothing was"):
            await q.enqueue("mail")
        assert (await q.read_state()).queued_jobs("mail") == ()


@virtual_time
async def test_an_adapters_own_bug_reaches_the_caller_as_it_is(open_queue):
    class Broken(FaultyStorage):
        async def write(self, content, if_match=None):
            raise KeyError("oops")

    async with open_queue(Broken()) as q:
        with pytest.raises(KeyError):
            await q.enqueue("mail")
        assert await q.dequeue() == [], "and nothing of it stays in the cache"
