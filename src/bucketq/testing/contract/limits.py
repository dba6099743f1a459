"""Limits: pauses, limits and tenants."""

import asyncio

from bucketq.errors import ConfigurationError
from bucketq.testing.contract.suite import QueueSuite, raises


class Limits(QueueSuite):
    """Pauses, limits and tenants."""

    async def test_a_pause_holds_new_work_back_and_lets_running_work_go_on(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", [1, 2])
            await q.enqueue("thumb")
            [running] = await q.dequeue("mail")
            await q.pause("mail")
            assert (await q.limits()).paused == ("mail",)
            assert await q.dequeue("mail") == []
            assert [job.entrypoint for job in await q.dequeue(batch_size=5)] == ["thumb"]
            await q.heartbeat(running)
            await q.ack(running)
            await q.resume("mail")
            assert [job.json() for job in await q.dequeue("mail")] == [2]
            await q.enqueue("mail")
            await q.pause()
            assert (await q.limits()).is_paused
            assert await q.dequeue(wait=0.05) == []
            await q.resume()
            assert len(await q.dequeue()) == 1

    async def test_no_more_run_at_the_same_time_than_may(self) -> None:
        async with self.open() as q:
            await q.limit("mail", max_running=2)
            await q.enqueue_many("mail", range(5))
            first = await q.dequeue(batch_size=5)
            assert [job.json() for job in first] == [0, 1]
            assert await q.dequeue() == []
            await q.ack(first[0])
            await q.nack(first[1])
            assert [job.json() for job in await q.dequeue("mail", batch_size=5)] == [1, 2]
            assert (await q.limits()).entrypoints["mail"].max_running == 2
            await q.limit("mail")
            assert not await q.limits()
            assert len(await q.dequeue(batch_size=5)) == 2

    async def test_a_full_limit_key_does_not_hold_up_the_others(self) -> None:
        async with self.open() as q:
            await q.limit(limit_key="customer-*", max_running=1)
            for number, customer in enumerate("aaabac"):
                await q.enqueue("mail", number, limit_key=f"customer-{customer}")
            await q.enqueue("mail", 6)
            jobs = await q.dequeue("mail", batch_size=10)
            assert [job.json() for job in jobs] == [0, 3, 5, 6]
            await q.ack(jobs[0])
            assert [job.json() for job in await q.dequeue("mail", batch_size=10)] == [1]

    async def test_a_waiting_dequeue_gets_the_job_that_may_begin_again(self) -> None:
        async with self.open() as q:
            await q.limit(limit_key="gpu", max_running=1)
            await q.enqueue_many("mail", range(2), limit_key="gpu")
            [running] = await q.dequeue()
            waiting = asyncio.create_task(q.dequeue(wait=20))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await q.ack(running)
            assert [job.json() for job in await waiting] == [1]

    async def test_a_rate_lets_a_burst_begin_and_then_one_after_the_other(self) -> None:
        async with self.open() as q:
            await q.limit("mail", rate=2, burst=2)
            await q.enqueue_many("mail", range(3))
            assert [job.json() for job in await q.dequeue(batch_size=3)] == [0, 1]
            assert await q.dequeue() == []
            assert [job.json() for job in await q.dequeue(wait=20)] == [2]

    async def test_a_flood_by_one_tenant_does_not_keep_the_others_waiting(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", [f"flood {number}" for number in range(4)], tenant="flood")
            await q.enqueue_many("mail", ["other 0", "other 1"], tenant="other")
            await q.enqueue("mail", "urgent", priority=-1, tenant="flood")
            served = [job.json() for job in await q.dequeue(batch_size=10)]
            assert served == ["urgent", "flood 0", "other 0", "flood 1", "other 1", "flood 2", "flood 3"]

    async def test_bad_limits_are_refused(self) -> None:
        async with self.open() as q:
            for bad in (
                {},
                {"entrypoint": "mail", "limit_key": "gpu"},
                {"entrypoint": "", "max_running": 1},
                {"entrypoint": "mail", "max_running": -1},
                {"entrypoint": "mail", "max_running": 1.5},
                {"entrypoint": "mail", "rate": 0},
                {"entrypoint": "mail", "rate": float("nan")},
                {"entrypoint": "mail", "burst": 3},
            ):
                with raises(ConfigurationError):
                    await q.limit(**bad)
            with raises(ConfigurationError):
                await q.pause("")
            assert not await q.limits()
