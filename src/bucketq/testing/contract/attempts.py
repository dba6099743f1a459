"""Attempts: when a job is tried, how often, and for how long."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

from bucketq.errors import ClaimLostError, ConfigurationError
from bucketq.job import JobStatus
from bucketq.retry import GiveUp, exponential
from bucketq.testing.contract.suite import QueueSuite, raises


class Attempts(QueueSuite):
    """When a job is tried, how often, and for how long."""

    async def test_a_failed_job_is_tried_again_and_dies_at_last(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", max_attempts=2)
            [job] = await q.dequeue()
            assert (await q.nack(job, error="boom")).status is JobStatus.QUEUED
            [job] = await q.dequeue()
            dead = await q.nack(job, error="boom again")
            assert (dead.status, dead.error, dead.attempts) == (JobStatus.DEAD, "boom again", 2)
            assert await q.dequeue() == []
            state = await q.read_state()
            assert state.dead_jobs() == (dead,)
            assert state.is_conserved()

    async def test_by_default_there_are_three_attempts(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            for _ in range(3):
                [job] = await q.dequeue()
                await q.nack(job.id)
            assert await q.dequeue() == []

    async def test_a_failed_job_is_tried_again_later(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            [job] = await q.dequeue()
            later = await q.nack(job, ValueError("boom"), retry_in=0.2)
            assert (later.status, later.error) == (JobStatus.SCHEDULED, "ValueError: boom")
            [again] = await q.dequeue(wait=10)
            assert (again.id, again.attempts) == (job.id, 2)
            assert again.claimed_at is not None
            assert later.run_at is not None
            assert again.claimed_at >= later.run_at, "not before its time"
            dead = await q.nack(again, "no use", retry=lambda failure: GiveUp())
            assert (dead.status, dead.error) == (JobStatus.DEAD, "no use")

    async def test_a_retry_policy_decides(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            [job] = await q.dequeue()
            try:
                raise KeyError("nobody")
            except KeyError as error:
                later = await q.nack(job, error, retry=exponential(first_s=1000, jitter=0))
            assert later.run_at is not None
            [attempt] = later.history
            assert later.run_at - attempt.ended_at == timedelta(seconds=1000)
            assert "in test_a_retry_policy_decides: raise KeyError" in (attempt.trace or "")
            with raises(ConfigurationError):
                await q.nack(job.id, "boom", retry=exponential())

    async def test_a_time_is_kept_in_utc(self) -> None:
        async with self.open() as q:
            zone = timezone(timedelta(hours=5, minutes=45, seconds=17))
            due = datetime(2099, 1, 1, 12, 30, 15, 7, tzinfo=zone)
            enqueued = await q.enqueue("mail", b"later", run_at=due, expires_at=due)
            for job in (enqueued, await q.find(enqueued.id)):
                assert job is not None
                assert job.run_at == job.expires_at == due
                assert job.run_at is not None
                assert job.run_at.utcoffset() == timedelta(0)

    async def test_a_job_waits_for_its_time(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", b"much later", run_at=datetime.now(UTC) + timedelta(days=400))
            await q.enqueue("mail", b"now", run_at=datetime.now(UTC) - timedelta(days=1))
            assert [job.payload for job in await q.dequeue(batch_size=5)] == [b"now"]
            stats = await q.stats()
            assert (stats.queued, stats.scheduled, stats.in_progress) == (0, 1, 1)
            later = await q.enqueue("mail", b"later", delay=0.2)
            assert later.status is JobStatus.SCHEDULED
            [due] = await q.dequeue("mail", batch_size=5, wait=10)
            assert due.payload == b"later"
            assert due.claimed_at is not None
            assert later.run_at is not None
            assert due.claimed_at >= later.run_at, "not before its time"
            no_zone = datetime(2030, 1, 1)  # noqa: DTZ001
            for wrong in ({"run_at": no_zone}, {"delay": -1}, {"delay": 1, "run_at": due.run_at}):
                with raises(ConfigurationError):
                    await q.enqueue("mail", **wrong)

    async def test_a_leaving_worker_costs_no_attempt(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", max_attempts=1)
            for _ in range(2):
                [job] = await q.dequeue()
                await q.release(job)
            await q.release(job)
            [job] = await q.dequeue()
            assert job.attempts == 1
            assert [attempt.outcome for attempt in job.history] == ["released", "released"]

    async def test_a_job_that_kills_its_workers_is_dead(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", max_attempts=9, max_crashes=2)
            for _ in range(2):
                assert await q.dequeue()
                assert await q.requeue_stale(timedelta(seconds=-60)) == 1
            assert await q.dequeue() == []
            [dead] = (await q.read_state()).dead_jobs()
            assert (dead.crashes, len(dead.history)) == (2, 2)

    async def test_one_attempt_is_one_delivery(self) -> None:
        async with self.open() as q:
            once = await q.enqueue("mail", max_attempts=1)
            [of_many] = await q.enqueue_many("mail", [1], max_attempts=1)
            twice = await q.enqueue("mail", max_attempts=2)
            patient = await q.enqueue("mail", max_attempts=1, max_crashes=3)
            assert [job.max_crashes for job in (once, twice, patient)] == [1, 2, 3]
            delivered = []
            while jobs := await q.dequeue(batch_size=4):
                delivered += [job.id for job in jobs]
                assert await q.requeue_stale(timedelta(seconds=-60)) == len(jobs)
            job_ids = (once.id, of_many, twice.id, patient.id)
            assert [delivered.count(job_id) for job_id in job_ids] == [1, 1, 2, 3]

    async def test_a_job_that_is_too_late_never_begins(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", b"late", expires_in=0)
            await q.enqueue("mail", b"in time", expires_in=600)
            [job] = await q.dequeue(batch_size=5)
            assert job.payload == b"in time"
            stats = await q.stats()
            assert (stats.queued, stats.cancelled_total, stats.enqueued_total) == (0, 1, 2)

    async def test_an_attempt_that_takes_too_long_is_over(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail", timeout=0.05, max_attempts=2)
            for status in (JobStatus.QUEUED, JobStatus.DEAD):
                [slow] = await q.dequeue()
                await asyncio.sleep(0.1)
                with raises(ClaimLostError):
                    await q.ack(slow)
                found = await q.find(slow)
                assert found is not None
                assert (found.status, found.error) == (status, "timed out after 0.05 s")
                assert found.history[-1].outcome == "timed_out"

    async def test_a_job_carries_the_trace_that_it_was_given(self) -> None:
        traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        async with self.open() as q:
            await q.enqueue("mail", 1, traceparent=traceparent, tracestate="vendor=abc", max_attempts=1)
            await q.enqueue("mail", 2, traceparent="nonsense", tracestate="vendor=abc")
            first, second = await q.dequeue("mail", batch_size=2)
            assert (first.traceparent, first.tracestate) == (traceparent, "vendor=abc")
            assert (second.traceparent, second.tracestate) == (None, None)
            await q.nack(first, "no such host")
            again = await q.redrive(first.id)
            assert (again.traceparent, again.tracestate) == (traceparent, "vendor=abc")
