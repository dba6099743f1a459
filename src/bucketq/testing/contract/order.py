"""Order: which job is served next, and to whom."""

import asyncio

from bucketq.testing.contract.suite import QueueSuite


class Order(QueueSuite):
    """Which job is served next, and to whom."""

    async def test_an_empty_queue_gives_nothing(self) -> None:
        async with self.open() as q:
            assert await q.dequeue() == []
            assert await q.dequeue("mail", batch_size=5) == []
            assert (await q.read_state()).jobs == ()

    async def test_priority_then_first_in_first_out(self) -> None:
        async with self.open() as q:
            for name, priority in [("c", 1), ("a", 0), ("b", 0), ("first", -5)]:
                await q.enqueue("mail", name.encode(), priority)
            jobs = await q.dequeue(batch_size=10)
            assert [job.payload for job in jobs] == [b"first", b"a", b"b", b"c"]

    async def test_an_entrypoint_serves_only_its_own(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", b"1")
            await q.enqueue("thumb", b"2")
            assert [job.payload for job in await q.dequeue("thumb", batch_size=5)] == [b"2"]
            assert await q.dequeue("thumb") == []
            assert [job.payload for job in await q.dequeue()] == [b"1"]

    async def test_a_claimed_job_is_nobody_elses(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", [str(number) for number in range(20)])
            claimed = await asyncio.gather(*(q.dequeue("mail", batch_size=3) for _ in range(10)))
            ids = [job.id for jobs in claimed for job in jobs]
            assert len(ids) == len(set(ids)) == 20

    async def test_enqueue_many_keeps_the_order(self) -> None:
        async with self.open() as q:
            assert len(await q.enqueue_many("mail", [])) == 0
            ids = await q.enqueue_many("mail", range(50), priority=1)
            jobs = (await q.read_state()).queued_jobs()
            assert [int(await q.fetch_payload(job)) for job in jobs] == list(range(50))
            assert [job.id for job in jobs] == list(ids) == sorted(ids)
            assert (len(ids), ids[0], ids[-1], ids[48:]) == (50, jobs[0].id, jobs[-1].id, list(ids)[48:])

    async def test_a_waiting_dequeue_gets_the_job_that_comes(self) -> None:
        async with self.open() as q:
            waiting = [asyncio.create_task(q.dequeue("mail", wait=30)) for _ in range(3)]
            await asyncio.sleep(0)
            await q.enqueue("other")
            await q.enqueue_many("mail", range(3))
            claimed = await asyncio.gather(*waiting)
            assert sorted(job.json() for jobs in claimed for job in jobs) == [0, 1, 2]

    async def test_a_waiting_dequeue_ends_when_its_time_is_up(self) -> None:
        async with self.open() as q:
            assert await q.dequeue(wait=0.05) == []

    async def test_a_cancelled_dequeue_keeps_no_job(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(10))
            for turns in range(10):
                task = asyncio.create_task(q.dequeue())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                kept = [] if task.cancelled() else task.result()
                await q.ack_many(kept)
            await q.enqueue("last")
            state = await q.read_state()
            assert state.in_progress_jobs() == (), "claims of cancelled callers are given back"
            assert all(job.attempts == 0 for job in state.jobs), "and cost no attempt"
