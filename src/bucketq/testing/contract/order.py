"""Order: which job is served next, and to whom."""

import asyncio
from typing import Any

from bucketq.errors import ConfigurationError
from bucketq.testing.contract.suite import QueueSuite, raises


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

    async def test_several_entrypoints_share_one_line(self) -> None:
        async with self.open() as q:
            for number, entrypoint in enumerate(["thumb", "other", "mail", "thumb", "other", "mail"]):
                await q.enqueue(entrypoint, number, priority=0 if number else 1)
            jobs = await q.dequeue(["mail", "thumb", "nobody"], batch_size=3)
            assert [job.json() for job in jobs] == [2, 3, 5], "lower priority first, then first in, first out"
            assert [job.json() for job in await q.dequeue(("thumb", "mail"), batch_size=9)] == [0]
            assert await q.dequeue(["mail", "thumb"]) == []
            assert [job.json() for job in await q.dequeue(["other"], batch_size=9)] == [1, 4]

    async def test_a_list_of_entrypoints_has_from_one_to_a_thousand(self) -> None:
        async with self.open() as q:
            await q.enqueue("e7")
            assert len(await q.dequeue([f"e{number}" for number in range(1000)])) == 1
            wrong: list[Any] = [[], [f"e{number}" for number in range(1001)], ["mail", None], b"mail", 7]
            for entrypoints in wrong:
                with raises(ConfigurationError):
                    await q.dequeue(entrypoints)

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

    async def test_a_dequeue_that_waits_for_several_gets_any_of_them(self) -> None:
        async with self.open() as q:
            waiting = [asyncio.create_task(q.dequeue(["mail", "thumb"], wait=30)) for _ in range(2)]
            later = asyncio.create_task(q.dequeue(["mail", "later"], wait=30))
            await asyncio.sleep(0)
            await q.enqueue("other")
            await q.enqueue("thumb", 1)
            await q.enqueue("later", 2, delay=0.1)
            assert [job.json() for job in await later] == [2]
            await q.enqueue("mail", 3)
            claimed = await asyncio.gather(*waiting)
            assert sorted(job.json() for jobs in claimed for job in jobs) == [1, 3]

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
