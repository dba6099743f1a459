"""Flow: jobs that wait for others, batches, results."""

import asyncio
from typing import Any

from bucketq.errors import ConfigurationError, JobFailedError, JobNotDoneError, JobNotFoundError, PayloadError
from bucketq.job import JobStatus
from bucketq.new_batch import Then
from bucketq.testing.contract.suite import QueueSuite, raises


class Flow(QueueSuite):
    """Jobs that wait for others, batches, results."""

    async def test_a_job_waits_for_others(self) -> None:
        async with self.open() as q:
            parents = [await q.enqueue("first", number) for number in range(2)]
            child = await q.enqueue("second", b"child", after=[parents[0], parents[1].id])
            later = await q.enqueue("third", after=[child], delay=3600)
            assert child.status is later.status is JobStatus.BLOCKED
            assert (await q.stats()).blocked == 2
            for job in await q.dequeue("first", batch_size=2):
                assert await q.dequeue("second") == []
                await q.ack(job)
            [claimed] = await q.dequeue("second")
            assert (claimed.id, claimed.payload, claimed.after) == (child.id, b"child", ())
            await q.ack(claimed)
            assert await q.dequeue("third") == []
            found = await q.find(later)
            assert found is not None
            assert found.status is JobStatus.SCHEDULED
            assert (await q.read_state()).is_conserved()

    async def test_a_job_that_waits_for_one_that_dies_is_cancelled_or_runs_all_the_same(self) -> None:
        async with self.open() as q:
            parent = await q.enqueue("first", max_attempts=1)
            child = await q.enqueue("second", after=[parent])
            await q.enqueue("second", after=[child])
            grandchild = await q.enqueue("second", after=[child], if_dead="run")
            [job] = await q.dequeue("first")
            await q.nack(job, "boom")
            assert [job.id for job in await q.dequeue("second", batch_size=9)] == [grandchild.id]
            stats = await q.stats()
            assert (stats.dead, stats.blocked, stats.cancelled_total) == (1, 0, 2)
            late = await q.enqueue("second", after=[parent])
            assert late.is_cancelled
            assert parent.id in (late.error or "")
            assert (await q.stats()).cancelled_total == 3
            assert await q.dequeue("second") == []
            if self.keeps_archive:
                for job in (child, late):
                    with raises(JobNotDoneError):
                        await q.result(job, timeout=30)
                with raises(JobFailedError) as failed:
                    await q.result(parent)
                assert isinstance(failed[0], JobFailedError)
                assert (failed[0].job_id, failed[0].error) == (parent.id, "boom")

    async def test_a_job_that_waits_for_finished_ones_runs_at_once(self) -> None:
        async with self.open() as q:
            parents = [await q.enqueue("first", number) for number in range(3)]
            await q.ack_many(await q.dequeue("first", batch_size=2))
            child = await q.enqueue("second", after=parents)
            assert child.after == (parents[2].id,)
            await q.ack_many(await q.dequeue("first"))
            assert (await q.enqueue("second", after=parents)).status is JobStatus.QUEUED
            assert len(await q.dequeue("second", batch_size=9)) == 2
            if self.keeps_archive:
                with raises(JobNotFoundError):
                    await q.enqueue("second", after=[parents[0], "nobody"])
                with raises(JobNotFoundError):
                    async with q.transaction() as t:
                        t.enqueue("second", after=["nobody"])
                assert (await q.stats()).enqueued_total == 5

    async def test_a_parent_and_its_children_in_one_transaction(self) -> None:
        async with self.open() as q:
            await q.enqueue("first")
            [job] = await q.dequeue("first")
            async with q.transaction() as t:
                t.ack(job)
                parent = t.enqueue("second")
                child = t.enqueue("third", after=[parent, job])
            assert await q.dequeue("third") == []
            await q.ack_many(await q.dequeue("second"))
            assert [job.id for job in await q.dequeue("third")] == [child.id]

    async def test_many_jobs_wait_for_one(self) -> None:
        async with self.open() as q:
            parent = await q.enqueue("first")
            await q.enqueue_many("second", range(20), after=[parent])
            assert (await q.stats()).blocked == 20
            await q.ack_many(await q.dequeue("first"))
            assert [job.json() for job in await q.dequeue("second", batch_size=99)] == list(range(20))

    async def test_a_job_follows_when_a_batch_is_finished(self) -> None:
        async with self.open() as q:
            then = Then("publish", {"album": 7}, 1, {"max_attempts": 1})
            batch = await q.enqueue_batch("resize", range(20), then=then, max_attempts=1)
            assert len(batch.job_ids) == 20
            assert await q.batch(batch.id) == (20, 20, 0)
            jobs = await q.dequeue("resize", batch_size=20)
            assert {job.id for job in jobs} == set(batch.job_ids)
            await q.nack(jobs[0], "boom")
            await q.ack_many(jobs[1:19])
            assert await q.batch(batch.id) == (20, 1, 1)
            assert await q.dequeue("publish") == []
            await q.ack(jobs[19])
            [last] = await q.dequeue("publish")
            assert (last.id, last.batch, last.json()) == (batch.id, batch.id, {"album": 7})
            assert (last.priority, last.max_attempts) == (1, 1)
            assert await q.batch(batch.id) == (20, 0, 1)
            await q.ack(last)
            assert await q.batch(batch.id) is None
            assert (await q.read_state()).is_conserved()

    async def test_the_name_of_an_entrypoint_has_a_limit(self) -> None:
        longest, too_long = "ä" * 250, "ä" * 251
        async with self.open() as q:
            assert (await q.enqueue(longest)).entrypoint == longest
            [job] = await q.dequeue(longest)
            await q.ack(job)
            for call in (
                lambda: q.enqueue(too_long),
                lambda: q.enqueue_many(too_long, range(3)),
                lambda: q.enqueue_batch(too_long, [1], then=("publish", b"")),
                lambda: q.enqueue_batch("resize", [1], then=(too_long, b"")),
                lambda: q.schedule("nightly", too_long, every=60),
                lambda: q.pause(too_long),
                lambda: q.limit(too_long, max_running=1),
            ):
                with raises(ConfigurationError) as refused:
                    await call()
                assert "1 to 250 characters, not 251" in str(refused[0])
            with raises(ConfigurationError):
                async with q.transaction() as t:
                    t.enqueue(too_long)
            assert (await q.stats()).enqueued_total == 1

    async def test_an_empty_batch_is_finished_at_once(self) -> None:
        async with self.open() as q:
            batch = await q.enqueue_batch("resize", [], then=("publish", b"x"))
            [job] = await q.dequeue()
            assert (job.id, job.payload) == (batch.id, b"x")
            assert await q.batch(batch.id) == (0, 0, 0)

    async def test_the_job_that_follows_a_batch_is_found_and_cancelled_while_the_batch_runs(self) -> None:
        async with self.open() as q:
            batch = await q.enqueue_batch("resize", [1, 2], then=("publish", {"album": 7}))
            child = await q.enqueue("tidy_up", after=[batch.id])
            found = await q.find(batch.id)
            assert found is not None
            assert (found.id, found.status, found.entrypoint) == (batch.id, JobStatus.BLOCKED, "publish")
            with raises(JobNotFoundError):
                await q.redrive(batch.id)
            assert (await q.cancel(batch.id)).is_cancelled
            assert await q.find(batch.id) is None
            assert await q.find(child) is None
            assert await q.batch(batch.id) is None
            jobs = await q.dequeue("resize", batch_size=2)
            assert [job.json() for job in jobs] == [1, 2]
            assert await q.ack_many(jobs) == []
            assert await q.dequeue() == []
            with raises(JobNotFoundError):
                await q.cancel(batch.id)
            stats = await q.stats()
            assert (stats.enqueued_total, stats.completed_total, stats.cancelled_total) == (4, 2, 2)

    async def test_wrong_batches_are_refused_and_nothing_is_enqueued(self) -> None:
        async with self.open() as q:
            wrong: Any = [None, (), "publish", ("publish", b"", 0, {"after": ["x"]}), ("",)]
            for then in wrong:
                with raises(ConfigurationError):
                    await q.enqueue_batch("resize", range(3), then=then)
            with raises(PayloadError):
                await q.enqueue_batch("resize", [1, object()], then=("publish", b""))
            assert (await q.stats()).enqueued_total == 0

    async def test_a_result_is_waited_for(self) -> None:
        if not self.keeps_archive:
            return
        async with self.open() as q:
            job = await q.enqueue("sum", [1, 2])
            waiting = asyncio.create_task(q.result(job, timeout=30))
            with raises(TimeoutError):
                await q.result(job.id, timeout=0.01)
            [claimed] = await q.dequeue()
            await q.ack(claimed, {"sum": 3})
            assert await waiting == await q.result(job.id) == {"sum": 3}
            await q.enqueue("sum")
            [claimed] = await q.dequeue()
            await q.ack(claimed)
            assert await q.result(claimed) is None
            with raises(JobNotFoundError):
                await q.result("nobody")

    async def test_the_result_of_a_batch_is_that_of_the_job_that_follows(self) -> None:
        if not self.keeps_archive:
            return
        async with self.open() as q:
            batch = await q.enqueue_batch("resize", range(2), then=("publish", b""))
            waiting = asyncio.create_task(q.result(batch.id, timeout=30))
            await q.ack_many(await q.dequeue("resize", batch_size=2))
            [last] = await q.dequeue("publish")
            await q.ack(last, "all done")
            assert await waiting == "all done"
