"""Limits with a deep backlog, and workers that wait for them."""

import asyncio

from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

broker = queues_with()


@virtual_time
async def test_a_waiting_worker_is_woken_when_its_bucket_is_refilled_and_not_before():
    storage = FaultyStorage()
    async with broker(storage, poll_interval_s=600.0) as q:
        await q.limit(limit_key="api", rate=0.1)
        await q.enqueue_many("mail", range(3), limit_key="api")
        start_s = asyncio.get_running_loop().time()
        for number in range(3):
            [job] = await q.dequeue(wait=60)
            assert job.json() == number
            assert 10 * number <= asyncio.get_running_loop().time() - start_s < 10 * number + 1
            await q.ack(job)


@virtual_time
async def test_very_many_jobs_of_a_full_key_are_not_looked_through_for_those_behind_them():
    storage = FaultyStorage()
    async with broker(storage, hot_jobs_max=100, segment_jobs_max=400) as q:
        await q.limit(limit_key="gpu", max_running=1)
        for number in range(700):
            await q.enqueue("mail", number, limit_key="gpu")
        await q.enqueue_many("mail", range(700, 1500), limit_key="gpu")
        [running] = await q.dequeue("mail")
        for number in range(150):
            await q.enqueue("mail", f"free {number}")
            assert [job.json() for job in await q.dequeue("mail")] == [f"free {number}"]
            assert await q.dequeue("mail") == []
        state = q._group._committer.state
        assert state.waiting("mail") == 1499
        assert len(state.queued_jobs()) <= 110, "they stay where they are"
        served = []
        while running is not None:
            served.append(running.json())
            await q.ack(running)
            running = next(iter(await q.dequeue("mail")), None)
        assert served == list(range(1500))
    assert (await q.read_state()).is_conserved()


@virtual_time
async def test_a_flood_in_segments_does_not_keep_other_tenants_waiting():
    async with broker(FaultyStorage(), hot_jobs_max=100, segment_jobs_max=400) as q:
        await q.enqueue_many("mail", range(2000), tenant="flood")
        [first] = await q.dequeue("mail")
        await q.enqueue_many("mail", range(1000), tenant="flood")
        for number in range(200):
            await q.enqueue("mail", number, tenant=f"tenant {number % 50}")
        served = [first]
        while jobs := await q.dequeue("mail", batch_size=50):
            served += jobs
            await q.ack_many(jobs)
        others = [place for place, job in enumerate(served) if job.tenant != "flood"]
        assert len(served) == 3200
        assert others[-1] < 210, "200 of their own, and one of the flood in each of their four turns"
        assert [job.json() for job in served if job.tenant == "flood"] == [*range(2000), *range(1000)]
