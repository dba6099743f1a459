"""Keys: unique keys."""

import asyncio

from bucketq.errors import ConfigurationError, KeyTakenError
from bucketq.testing.contract.suite import QueueSuite, raises


class Keys(QueueSuite):
    """Unique keys."""

    async def test_a_key_is_that_of_one_job_while_it_waits_or_runs(self) -> None:
        async with self.open() as q:
            first = await q.enqueue("mail", 1, key="k")
            for number in range(10):
                await q.enqueue("mail", number, key=f"other {number}", priority=-1)
            assert (await q.enqueue("mail", 2, key="k")).id == first.id, "it is returned"
            with raises(KeyTakenError) as caught:
                await q.enqueue("mail", 2, key="k", if_exists="raise")
            assert isinstance(caught[0], KeyTakenError)
            assert caught[0].job_id == first.id
            later = await q.enqueue("mail", 3, key="later", delay=3600)
            assert (await q.enqueue("mail", 4, key="later")).id == later.id, "a scheduled one has it too"
            [*others, running] = await q.dequeue(batch_size=11)
            assert (running.id, await q.dequeue()) == (first.id, [])
            assert (await q.enqueue("mail", 2, key="k")).id == first.id, "a running one has it too"
            with raises(KeyTakenError):
                await q.enqueue("mail", 2, key="k", if_exists="replace")
            await q.ack(running)
            assert (await q.enqueue("mail", 2, key="k")).id != first.id, "it is free again"
            await q.ack_many(others)
            assert (await q.stats()).enqueued_total == 13

    async def test_a_waiting_job_is_replaced_by_the_next_with_its_key(self) -> None:
        async with self.open() as q:
            old = await q.enqueue("mail", 1, key="k")
            await q.enqueue_many("mail", range(2, 12))
            new = await q.enqueue("mail", 12, key="k", if_exists="replace")
            assert new.id != old.id
            assert await q.find(old.id) is None
            jobs = await q.dequeue(batch_size=20)
            assert [job.json() for job in jobs] == list(range(2, 13))
            assert (await q.stats()).cancelled_total == 1

    async def test_a_dead_job_does_not_hold_its_key(self) -> None:
        async with self.open() as q:
            dead = await self._dead_job(q, "mail", 1, key="k")
            other = await q.enqueue("mail", 2, key="k")
            assert other.id != dead.id
            with raises(KeyTakenError):
                await q.redrive(dead)
            assert await q.redrive_many() == 0
            [job] = await q.dequeue()
            await q.ack(job)
            assert (await q.redrive(dead)).key == "k"

    async def test_a_key_may_be_kept_after_the_job_is_finished(self) -> None:
        async with self.open() as q:
            for key_for in (3600, 0.001):
                await q.enqueue("mail", key=f"for {key_for}", key_for=key_for)
                [job] = await q.dequeue()
                await q.ack(job)
            with raises(KeyTakenError):
                await q.enqueue("mail", key="for 3600")
            await asyncio.sleep(0.01)
            assert (await q.enqueue("mail", key="for 0.001")).key == "for 0.001"

    async def test_keys_that_make_no_sense_are_refused(self) -> None:
        async with self.open() as q:
            for options in ({"if_exists": "raise"}, {"key": "k", "if_exists": "never"}, {"key": ""}):
                with raises(ConfigurationError):
                    await q.enqueue("mail", **options)  # type: ignore[arg-type]
            with raises(ConfigurationError):
                await q.enqueue_many("mail", [1, 2], key="k")
            assert (await q.stats()).enqueued_total == 0

    async def test_a_transaction_respects_keys(self) -> None:
        async with self.open() as q:
            first = await q.enqueue("mail", 1, key="k")
            with raises(KeyTakenError):
                async with q.transaction() as t:
                    t.enqueue("mail", 2)
                    t.enqueue("mail", 3, key="k", if_exists="raise")
            async with q.transaction() as t:
                t.enqueue("mail", 4)
                t.enqueue("mail", 5, key="k")
            jobs = await q.dequeue(batch_size=10)
            assert [job.json() for job in jobs] == [1, 4]
            assert jobs[0].id == first.id
