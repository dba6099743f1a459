"""Claims: what the holder of a job may do, and nobody else."""

import asyncio
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from bucketq.errors import (
    ClaimLostError,
    ConfigurationError,
    JobCancelledError,
    JobNotFoundError,
    PayloadError,
)
from bucketq.job import Job, JobStatus
from bucketq.testing.contract.suite import QueueSuite, raises


class Claims(QueueSuite):
    """What the holder of a job may do, and nobody else."""

    async def test_a_job_goes_all_the_way(self) -> None:
        async with self.open() as q:
            job = await q.enqueue("mail", b"hello", priority=3)
            assert (job.entrypoint, job.payload, job.priority) == ("mail", b"hello", 3)
            found = (await q.read_state()).find(job.id)
            assert found is not None
            assert replace(found, payload=await q.fetch_payload(found)) == job
            [claimed] = await q.dequeue("mail")
            assert (claimed.id, claimed.payload) == (job.id, b"hello")
            assert (claimed.status, claimed.attempts) == (JobStatus.IN_PROGRESS, 1)
            await q.ack(claimed)
            state = await q.read_state()
            assert state.jobs == ()
            assert state.stats.completed_total == state.stats.enqueued_total == 1

    async def test_a_lost_claim_is_refused(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            [lost] = await q.dequeue()
            assert await q.requeue_stale(timedelta(seconds=-60)) == 1
            [held] = await q.dequeue()
            for refused in (q.ack(lost), q.nack(lost), q.heartbeat(lost)):
                with raises(ClaimLostError):
                    await refused
            await q.heartbeat(held)
            await q.ack(held)

    async def test_operations_by_id_stand_for_whoever_holds_the_job(self) -> None:
        async with self.open() as q:
            job = await q.enqueue("mail")
            with raises(ClaimLostError):
                await q.ack(job.id)
            await q.dequeue()
            await q.heartbeat(job.id)
            await q.ack(job.id)
            with raises(JobNotFoundError) as refused:
                await q.ack(job.id)
            assert isinstance(refused[0], JobNotFoundError)
            assert refused[0].job_id == job.id

    async def test_unknown_jobs_are_refused(self) -> None:
        async with self.open() as q:
            for refused in (q.ack("nobody"), q.nack("nobody"), q.heartbeat("nobody")):
                with raises(JobNotFoundError):
                    await refused

    async def test_one_refused_operation_does_not_harm_its_neighbours(self) -> None:
        async with self.open() as q:
            results = await asyncio.gather(
                q.enqueue("mail", b"1"),
                q.nack("nobody"),
                q.enqueue("mail", b"2"),
                q.ack("nobody"),
                return_exceptions=True,
            )
            assert [isinstance(result, JobNotFoundError) for result in results] == [0, 1, 0, 1]
            jobs = (await q.read_state()).jobs
            assert sorted([await q.fetch_payload(job) for job in jobs]) == [b"1", b"2"]

    async def test_ack_many_finishes_what_it_can_and_names_the_rest(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(3))
            jobs: list[Job | str] = [*await q.dequeue(batch_size=3)]
            refused = await q.ack_many([*jobs[:2], "nobody"])
            assert [error.job_id for error in refused] == ["nobody"]
            assert (await q.read_state()).stats.completed_total == 2
            assert await q.ack_many([]) == []

    async def test_ack_many_takes_a_result_for_each_or_none(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(4))
            jobs = await q.dequeue(batch_size=4)
            wrong: list[list[Any]] = [[], [1], [1, 2, 3]]
            for results in wrong:
                with raises(ConfigurationError):
                    await q.ack_many(jobs[:2], results=results)
            too_large = "x" * 64 * 1024
            with raises(PayloadError):
                await q.ack_many(jobs[:2], results=[1, too_large])
            assert (await q.stats()).completed_total == 0, "none of them"
            refused = await q.ack_many(
                [jobs[0], "nobody", jobs[1], jobs[2]], results=[{"n": 0}, "lost", None, [2]]
            )
            assert [error.job_id for error in refused] == ["nobody"]
            assert await q.ack_many(jobs[3:]) == []
            if self.keeps_archive:
                assert [await q.result(job) for job in jobs] == [{"n": 0}, None, [2], None]

    async def test_ack_many_with_large_results_takes_several_writes(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(200))
            jobs = await q.dequeue(batch_size=200)
            large = "x" * 60 * 1024
            refused = await q.ack_many(["nobody", *jobs, "nothing"], [large] * 202)
            assert [error.job_id for error in refused] == ["nobody", "nothing"]
            assert (await q.stats()).completed_total == 200

    async def test_one_heartbeat_for_many_jobs(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(4))
            [lost] = await q.dequeue()
            await q.nack(lost)
            await q.dequeue()
            held = await q.dequeue(batch_size=3)
            await q.cancel(held[1])
            jobs: list[Job | str] = [lost, *held, "nobody"]
            refused = await q.heartbeat_many(jobs, {held[0].id: (0.5, "half"), held[2].id: (None, "last")})
            assert [(error.job_id, type(error)) for error in refused] == [
                (lost.id, ClaimLostError),
                (held[1].id, JobCancelledError),
                ("nobody", JobNotFoundError),
            ]
            assert await q.heartbeat_many([held[0], held[2]]) == []
            assert await q.heartbeat_many([]) == []
            await q.enqueue("other")
            found = [await q.find(job) for job in (held[0], held[2])]
            assert [(job.progress, job.note) for job in found if job] == [(0.5, "half"), (None, "last")]
            with raises(ConfigurationError):
                await q.heartbeat_many(held, {held[0].id: (2.0, None)})

    async def test_progress_comes_with_a_heartbeat_and_goes_with_the_claim(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            [job] = await q.dequeue()
            await q.heartbeat(job, progress=0.4, note="page 4")
            await q.heartbeat(job, progress=0.5)
            await q.heartbeat(job)
            await q.enqueue("other")
            found = await q.find(job)
            assert found is not None
            assert (found.progress, found.note) == (0.5, "page 4")
            anything: Any = [-0.1, 1.1, float("nan"), "half", True]
            for wrong in anything:
                with raises(ConfigurationError):
                    await q.heartbeat(job, progress=wrong)
            with raises(ConfigurationError):
                await q.heartbeat(job, note="x" * 501)
            given_back = await q.nack(job)
            assert (given_back.progress, given_back.note) == (None, None)

    async def test_the_snapshot_belongs_to_the_reader(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            state = await q.read_state()
            await q.dequeue()
            assert state.stats.queued == 1
            assert (await q.read_state()).stats.queued == 0
