"""Transactions: several changes in one commit, or none."""

from bucketq.errors import BucketQError, JobNotFoundError
from bucketq.job import JobStatus
from bucketq.testing.contract.suite import QueueSuite, raises


class Transactions(QueueSuite):
    """Several changes in one commit, or none."""

    async def test_a_transaction_lands_whole(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(2))
            done, failed = await q.dequeue(batch_size=2)
            async with q.transaction() as t:
                t.ack(done)
                t.nack(failed, error="boom")
                following = t.enqueue("next", {"after": done.id})
            state = await q.read_state()
            assert state.find(done.id) is None
            assert [job.id for job in state.queued_jobs()] == [failed.id, following.id]

    async def test_a_job_that_waits_for_others_is_blocked_in_a_transaction_too(self) -> None:
        async with self.open() as q:
            first = await q.enqueue("mail")
            async with q.transaction() as t:
                child = t.enqueue("mail", after=[first])
                late = t.enqueue("mail", after=[child], delay=60)
            state = await q.read_state()
            assert {job.id for job in state.with_status(JobStatus.BLOCKED)} == {child.id, late.id}
            assert child.status is late.status is JobStatus.BLOCKED

    async def test_a_transaction_of_which_one_part_fails_leaves_nothing(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            [job] = await q.dequeue()
            before = (await q.read_state()).jobs
            with raises(JobNotFoundError):
                async with q.transaction() as t:
                    t.enqueue("next")
                    t.ack(job)
                    t.ack("nobody")
            with raises(ZeroDivisionError):
                async with q.transaction() as t:
                    t.ack(job)
                    raise ZeroDivisionError
            with raises(BucketQError):
                t.enqueue("too late")
            with raises(BucketQError):
                async with t:
                    pass
            assert (await q.read_state()).jobs == before
            await q.ack(job)
