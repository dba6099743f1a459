"""DeadLetters: jobs that are cancelled, and the dead, which are done again or discarded."""

from bucketq.errors import JobCancelledError, JobNotFoundError
from bucketq.job import JobStatus
from bucketq.testing.contract.suite import QueueSuite, raises


class DeadLetters(QueueSuite):
    """Jobs that are cancelled, and the dead, which are done again or discarded."""

    async def test_a_waiting_job_is_cancelled_wherever_it_stands(self) -> None:
        async with self.open() as q:
            ids = await q.enqueue_many("mail", range(30))
            later = await q.enqueue("mail", delay=3600, key="k")
            for job_id in ids[::3]:
                assert (await q.cancel(job_id)).is_cancelled
            assert (await q.cancel(later)).id == later.id
            for gone in (ids[0], ids[27], later.id, "nobody"):
                with raises(JobNotFoundError):
                    await q.cancel(gone)
                assert await q.find(gone) is None
            served = [job.json() for job in await q.dequeue(batch_size=30)]
            assert served == [number for number in range(30) if number % 3]
            stats = await q.stats()
            assert (stats.cancelled_total, stats.scheduled, stats.queued) == (11, 0, 0)
            assert (await q.enqueue("mail", key="k")).id != later.id, "its key is free"

    async def test_the_worker_of_a_cancelled_job_learns_it_by_its_heartbeat(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(3))
            jobs = await q.dequeue(batch_size=3)
            for job in jobs:
                await q.heartbeat(job)
                cancelled = await q.cancel(job.id)
                assert (cancelled.id, cancelled.status) == (job.id, JobStatus.IN_PROGRESS)
                with raises(JobCancelledError):
                    await q.heartbeat(job)
            await q.nack(jobs[0], "stopped", retry_in=5)
            await q.release(jobs[1])
            await q.ack(jobs[2])
            stats = await q.stats()
            assert (stats.cancelled_total, stats.completed_total) == (2, 1), "who has finished it, has"
            assert (stats.queued, stats.scheduled, stats.in_progress, stats.dead) == (0, 0, 0, 0)

    async def test_dead_jobs_are_listed_and_done_again(self) -> None:
        async with self.open() as q:
            dead = [await self._dead_job(q, "mail", number) for number in range(12)]
            other = await self._dead_job(q, "thumb", "other")
            assert {job.id async for job in q.dead()} == {job.id for job in (*dead, other)}
            assert {job.id async for job in q.dead("thumb")} == {other.id}
            for job in (dead[0], dead[7]):
                again = await q.redrive(job.id)
                assert (again.redrive_of, again.attempts, again.error) == (job.id, 0, None)
                with raises(JobNotFoundError):
                    await q.redrive(job)
            with raises(JobNotFoundError):
                await q.redrive(again)
            with raises(JobNotFoundError):
                await q.cancel(other)
            assert await q.redrive_many("mail", error="no such") == 0
            assert await q.redrive_many("mail", error="boom", limit=4) == 4
            assert await q.redrive_many("mail") == 6
            served = await q.dequeue(batch_size=20)
            assert sorted(job.json() for job in served) == list(range(12))
            assert {job.redrive_of for job in served} == {job.id for job in dead}
            await q.ack_many(served)
            stats = await q.stats()
            assert (stats.dead, stats.dead_total, stats.enqueued_total) == (1, 13, 25)

    async def test_dead_jobs_are_discarded(self) -> None:
        async with self.open() as q:
            dead = [await self._dead_job(q, "mail", number) for number in range(12)]
            await q.discard(dead[5])
            with raises(JobNotFoundError):
                await q.discard(dead[5])
            assert await q.discard_many(limit=3) == 3
            assert len([job async for job in q.dead()]) == 8
            assert await q.discard_many(error="boom") == 8
            assert [job async for job in q.dead()] == []
            stats = await q.stats()
            assert (stats.dead, stats.dead_total) == (0, 12)
