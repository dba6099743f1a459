"""The commit loop: how many requests it makes, and what it does when nobody needs it."""

import asyncio
from datetime import timedelta

import pytest

from bucketq import (
    AccessDeniedError,
    ClaimLostError,
    CorruptStateError,
    DirectQueue,
    InMemoryStorage,
    QueueClosedError,
    StorageError,
)
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage, queues_with
from tests.faults.rivals import FarBucket, FarStorage

broker = queues_with()


@virtual_time
async def test_callers_share_writes():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    async with broker(storage) as q:
        await q.enqueue("warm up")
        writes, reads = storage.writes, storage.reads
        await asyncio.gather(*(q.enqueue("mail", number) for number in range(100)))
        assert storage.writes - writes == 1
        assert storage.reads == reads, "the cache is the base of the next commit"


@virtual_time
async def test_what_arrives_during_a_write_is_the_next_batch():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    async with broker(storage) as q:
        first = asyncio.create_task(q.enqueue("mail", 1))
        while not storage.writes:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(q.enqueue("mail", number)) for number in range(2, 50)]
        await first
        assert not any(task.done() for task in others)
        await asyncio.gather(*others)
        assert storage.writes == 2


@virtual_time
async def test_an_answer_never_comes_before_the_write():
    storage = FaultyStorage()
    storage.latency_s = 5
    async with broker(storage) as q:
        task = asyncio.create_task(q.enqueue("mail"))
        await asyncio.sleep(9)
        assert not task.done()
        assert await storage.inner.read() == (b"", None)
        await task
        assert (await storage.inner.read())[1] is not None


@virtual_time
async def test_a_batch_that_changes_nothing_writes_nothing():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail")
        writes, reads = storage.writes, storage.reads
        assert await q.dequeue("other") == []
        with pytest.raises(Exception, match="nobody"):
            await q.ack("nobody")
        assert storage.writes == writes
        assert storage.reads == reads + 2, "one conditional read for each answer from the cache"
    async with broker(storage, sole_writer=True) as q:
        await q.dequeue("mail")
        writes, reads = storage.writes, storage.reads
        assert await q.dequeue("mail") == []
        assert (storage.writes, storage.reads) == (writes, reads), "a sole writer need not look"


@virtual_time
async def test_empty_is_never_said_from_an_old_cache():
    storage = InMemoryStorage()
    async with broker(storage) as ours, broker(storage) as theirs:
        assert await ours.dequeue() == []
        job = await theirs.enqueue("mail")
        [claimed] = await ours.dequeue()
        assert claimed.id == job.id
        await theirs.heartbeat(claimed)
        await theirs.ack(claimed)
        with pytest.raises(Exception, match="not in the queue"):
            await ours.ack(claimed)


@virtual_time
async def test_an_idle_queue_makes_no_requests():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail")
        before = storage.reads + storage.writes
        await asyncio.sleep(3600)
        assert storage.reads + storage.writes == before


@virtual_time
async def test_many_waiting_dequeues_cost_one_look_each_interval():
    storage = FaultyStorage()
    async with broker(storage, poll_interval_s=1) as q:
        waiting = [asyncio.create_task(q.dequeue(wait=60)) for _ in range(200)]
        await asyncio.sleep(0.5)
        before = storage.reads
        await asyncio.sleep(30)
        assert storage.reads - before == 30
        assert storage.writes == 0
        await DirectQueue(storage.inner, clock=VirtualClock()).enqueue("from elsewhere")
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        assert sum(len(jobs) for jobs in await asyncio.gather(*waiting)) == 1


@virtual_time
async def test_the_commit_interval_gathers_operations():
    storage = FaultyStorage()
    async with broker(storage, commit_interval_s=2) as q:
        await q.enqueue("at once")
        assert asyncio.get_running_loop().time() < 1
        for number in range(10):
            asyncio.get_running_loop().call_later(
                0.1 * number, lambda n=number: tasks.append(asyncio.create_task(q.enqueue("mail", n)))
            )
        tasks = []
        await asyncio.sleep(3)
        await asyncio.gather(*tasks)
        assert storage.writes == 2


@virtual_time
async def test_a_slow_down_widens_the_interval_for_a_while():
    storage = FaultyStorage()
    async with broker(storage) as q:
        storage.faults.extend(["slow down"] * 4)
        await q.enqueue("mail")
        committer = q._group._committer
        assert committer.interval_s > 0.5
        await asyncio.sleep(20)
        assert committer.interval_s == 0


@virtual_time
async def test_wrong_credentials_are_reported_at_once():
    class Denied(FaultyStorage):
        async def write(self, content, if_match=None):
            raise AccessDeniedError("injected: 403")

    async with broker(Denied()) as q:
        with pytest.raises(AccessDeniedError):
            await q.enqueue("mail")
        assert asyncio.get_running_loop().time() == 0


@pytest.mark.parametrize("content", [b" ", b'{"version":', b'{"format":9,"jobs":{}}'])
@virtual_time
async def test_what_cannot_be_read_is_refused_and_never_overwritten(content):
    storage = FaultyStorage()
    await storage.inner.write(content)
    async with broker(storage) as q:
        for operation in (q.enqueue("mail"), q.dequeue(), q.read_state()):
            with pytest.raises(CorruptStateError):
                await operation
    assert (await storage.inner.read())[0] == content
    assert storage.writes == 0


@virtual_time
async def test_closing_commits_what_was_gathered_and_refuses_what_comes_later():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    q = broker(storage)
    with pytest.raises(QueueClosedError):
        await q.enqueue("too early")
    async with q:
        tasks = [asyncio.create_task(q.enqueue("mail", number)) for number in range(10)]
        waiting = asyncio.create_task(q.dequeue("other", wait=600))
        await asyncio.sleep(0.01)
    assert len(await asyncio.gather(*tasks)) == 10
    with pytest.raises(QueueClosedError):
        await waiting
    with pytest.raises(QueueClosedError):
        await q.enqueue("too late")
    async with q:
        assert len((await q.read_state()).jobs) == 10, "and it can be opened again"


@virtual_time
async def test_an_operation_cancelled_before_its_batch_is_dropped():
    storage = FaultyStorage()
    storage.latency_s = 1
    async with broker(storage) as q:
        first = asyncio.create_task(q.enqueue("mail", 1))
        await asyncio.sleep(0.5)
        second = asyncio.create_task(q.enqueue("mail", 2))
        await asyncio.sleep(0.1)
        second.cancel()
        await first
        await q.enqueue("mail", 3)
        assert [job.json() for job in (await q.read_state()).jobs] == [1, 3]


@virtual_time
async def test_a_claim_that_lands_for_a_caller_who_left_is_released_at_once():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail")
        storage.latency_s = 1
        leaving = asyncio.create_task(q.dequeue())
        await asyncio.sleep(0.5)
        leaving.cancel()
        await asyncio.sleep(5)
        [job] = (await q.read_state()).queued_jobs()
        assert job.attempts == 0


@virtual_time
async def test_a_dead_workers_job_is_recovered_by_any_later_write():
    storage = InMemoryStorage()
    async with broker(storage, stale_after_s=30) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        await asyncio.sleep(29)
        assert await q.dequeue() == []
        await asyncio.sleep(2)
        [again] = await q.dequeue()
        assert (again.id, again.attempts) == (job.id, 2)
        with pytest.raises(ClaimLostError):
            await q.ack(job)


@pytest.mark.parametrize("act", ["ack", "nack", "heartbeat", "ack_many", "transaction"])
@virtual_time
async def test_a_process_that_stood_still_takes_no_job_from_its_own_workers(act):
    async with broker(InMemoryStorage(), stale_after_s=30) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        asyncio.get_running_loop().advance(100)
        if act == "transaction":
            async with q.transaction() as t:
                t.ack(job)
        elif act == "ack_many":
            assert await q.ack_many([job]) == []
        else:
            await getattr(q, act)(job)
        assert (await q.read_state()).stats.queued == (act == "nack")


@virtual_time
async def test_a_waiting_worker_gets_a_dead_workers_job():
    async with broker(InMemoryStorage(), stale_after_s=30) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        [again] = await q.dequeue(wait=60)
        assert again.id == job.id
        assert 30 <= asyncio.get_running_loop().time() < 33


@pytest.mark.parametrize("skew", [timedelta(hours=2), timedelta(hours=-2)])
@virtual_time
async def test_a_wrong_clock_takes_no_job_from_a_healthy_worker(skew):
    storage = InMemoryStorage()
    async with (
        broker(storage, stale_after_s=30) as worker,
        broker(storage, skew, stale_after_s=30) as rival,
    ):
        await worker.enqueue("mail")
        [job] = await worker.dequeue()
        for _ in range(20):
            await asyncio.sleep(12)
            await worker.heartbeat(job)
            assert await rival.dequeue() == []
        await worker.ack(job)


@virtual_time
async def test_a_queue_opened_again_while_it_closes_is_a_writer_of_its_own():
    storage = FaultyStorage()
    storage.latency_s = 1
    q = broker(storage)

    async def session(name):
        async with q:
            return await q.enqueue(name)

    first = asyncio.create_task(q.__aenter__())
    await first
    leaving = asyncio.create_task(q.enqueue("first"))
    await asyncio.sleep(1.5)
    closing = asyncio.create_task(q.__aexit__(None, None, None))
    await asyncio.sleep(0.1)
    await session("second")
    await asyncio.gather(leaving, closing)
    state = await q.read_state()
    assert {job.entrypoint for job in state.jobs} == {"first", "second"}


@virtual_time
async def test_a_beat_that_rode_is_stored_in_time_even_if_nobody_writes():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        await asyncio.sleep(70)
        await q.heartbeat(job)
        await asyncio.sleep(31)
        [stored] = (await q.read_state()).in_progress_jobs()
        assert stored.heartbeat_at > job.heartbeat_at
        [again] = await q.dequeue(wait=1000)
        assert again.id == job.id, "a worker that beats once and dies is noticed"
        assert 400 <= asyncio.get_running_loop().time() < 405


@virtual_time
async def test_a_beat_that_rode_is_not_lost_when_the_queue_closes_or_a_commit_fails():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300, retry_for_s=1) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        await asyncio.sleep(10)
        await q.heartbeat(job)
        storage.is_down = True
        with pytest.raises(StorageError):
            await q.enqueue("mail")
        storage.is_down = False
    [stored] = (await DirectQueue(storage).read_state()).in_progress_jobs()
    assert stored.heartbeat_at > job.heartbeat_at


@virtual_time
async def test_heartbeats_ride_along_and_are_written_alone_only_when_time_presses():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        writes = storage.writes
        for _ in range(9):
            await asyncio.sleep(10)
            await q.heartbeat(job)
        assert await q.dequeue("nothing") == [], "a batch that changes nothing carries nothing"
        assert storage.writes == writes
        await q.enqueue("other")
        [beaten] = (await q.read_state()).in_progress_jobs()
        assert beaten.heartbeat_at > job.heartbeat_at, "it rode along"
        for _ in range(30):
            await asyncio.sleep(10)
            await q.heartbeat(job)
        assert storage.writes - writes == 1 + 3, "then once every third of the stale timeout"
        await q.ack(job)
        with pytest.raises(Exception, match="not in the queue"):
            await q.heartbeat(job)


@virtual_time
async def test_a_busy_queue_is_looked_at_often_and_an_idle_one_seldom():
    bucket = FarBucket()
    ours, theirs = FarStorage(bucket, 0.06), FarStorage(bucket, 0.06)
    loop, enqueued_s, waits_s = asyncio.get_running_loop(), {}, []

    async def work(q):
        while True:
            for job in await q.dequeue(wait=600):
                waits_s.append(loop.time() - enqueued_s[job.payload])
                await q.ack(job)

    async with broker(ours) as worker, broker(theirs) as producer:
        working = asyncio.create_task(work(worker))
        for number in range(40):
            await asyncio.sleep(0.3 + 0.02 * number)
            await producer.enqueue("mail", b"%d" % number)
            enqueued_s[b"%d" % number] = loop.time()
        await asyncio.sleep(20)
        assert len(waits_s) == 40
        assert sorted(waits_s)[20] <= 5 * 0.06
        before = ours.reads
        await asyncio.sleep(106)
        assert ours.reads - before == 100, (
            "one look each interval, which begins when the look before has ended"
        )
        working.cancel()


@virtual_time
async def test_a_commit_of_another_process_costs_a_few_looks_more():
    bucket = FarBucket()
    ours = FarStorage(bucket, 0.01)
    async with broker(ours, poll_interval_s=10) as worker, broker(FarStorage(bucket, 0.01)) as other:
        await other.enqueue("mail")
        waiting = asyncio.create_task(worker.dequeue("nothing", wait=600))
        await asyncio.sleep(60)
        before = ours.reads
        await other.enqueue("mail")
        await asyncio.sleep(100)
        # From 0.05 s to 10 s in steps of a fifth, and ten that had come anyway.
        assert ours.reads - before <= 10 + 30
        waiting.cancel()
