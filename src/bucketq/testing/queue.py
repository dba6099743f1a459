"""QueueContract: what every queue does, whatever is behind it.

Subclass it and give `open`; run it with pytest and pytest-asyncio:

    class TestMyQueue(QueueContract):
        def open(self):
            return BrokerQueue(MyStorage())
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.errors import (
    BucketQError,
    ClaimLostError,
    ConfigurationError,
    JobCancelledError,
    JobFailedError,
    JobNotDoneError,
    JobNotFoundError,
    KeyTakenError,
    PayloadError,
    ScheduleNotFoundError,
)
from bucketq.job import Job, JobStatus
from bucketq.new_batch import Then
from bucketq.new_job import JobOptions
from bucketq.queue import Queue
from bucketq.retry import GiveUp, exponential


@dataclass
class Mail:
    """A payload as a dataclass."""

    to: str


class Picture(msgspec.Struct):
    """A payload as a msgspec Struct."""

    width: int


class QueueContract:
    """The behaviour of a queue, as tests. Every call of `open` gives a new, empty queue."""

    # Without an archive nobody can tell how a job ended that is in the queue no more.
    keeps_archive = True

    def open(self) -> AbstractAsyncContextManager[Queue]:
        """A queue to be entered with `async with`."""
        raise AssertionError("a QueueContract needs an `open`")

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

    async def test_payloads_are_bytes_or_json(self) -> None:
        async with self.open() as q:
            given: list[Any] = [b"\x00\xff", {"n": [1, None]}, Mail("alice"), Picture(3), "text", 7]
            await q.enqueue_many("any", given)
            jobs = await q.dequeue(batch_size=9)
            assert jobs[0].payload == b"\x00\xff"
            assert [job.json() for job in jobs[1:4]] == [{"n": [1, None]}, {"to": "alice"}, {"width": 3}]
            assert [job.json() for job in jobs[4:]] == ["text", 7]
            assert jobs[2].json(Mail) == Mail("alice")
            assert jobs[3].json(Picture) == Picture(3)

    async def test_bad_input_is_refused_and_nothing_is_enqueued(self) -> None:
        async with self.open() as q:
            for refused in (
                q.enqueue("mail", object()),
                q.enqueue("mail", b"x" * (q.settings.payload_bytes_max + 1)),
                q.enqueue_many("mail", [b"fine", {1, object()}]),
            ):
                with raises(PayloadError):
                    await refused
            anything: Any = [True, 1.5, "high", None, 2**60]
            wrong_calls: list[Coroutine[Any, Any, Any]] = [
                q.enqueue(""),
                q.enqueue("\ud800"),
                *(q.enqueue("mail", priority=wrong) for wrong in anything),
                *(q.enqueue("mail", max_attempts=wrong) for wrong in [0, *anything]),
                *(q.enqueue_many("mail", wrong) for wrong in ("abc", b"abc", {"a": 1})),
                *(q.ack(wrong) for wrong in anything if not isinstance(wrong, str)),
                q.dequeue(batch_size=0),
            ]
            for wrong_call in wrong_calls:
                with raises(ConfigurationError):
                    await wrong_call
            assert (await q.read_state()).stats.enqueued_total == 0

    async def test_an_error_is_a_text_or_an_exception(self) -> None:
        async with self.open() as q:
            errors: list[tuple[Any, str | None]] = [
                ("boom", "boom"),
                (ValueError("bad"), "ValueError: bad"),
                (None, None),
            ]
            for error, kept in errors:
                await q.enqueue("mail")
                [job] = await q.dequeue()
                assert (await q.nack(job, error=error)).error == kept
                [job] = await q.dequeue()
                wrong: Any = 404
                with raises(ConfigurationError):
                    await q.nack(job, error=wrong)
                await q.ack(job)

    async def test_deeply_nested_json_comes_back(self) -> None:
        async with self.open() as q:
            brackets = b"[" * 2000 + b"]" * 2000
            hidden = b'["' + b"]" * 2000 + b'",' + brackets + b"]"
            await q.enqueue_many("mail", [brackets, hidden])
            assert [job.payload for job in await q.dequeue(batch_size=2)] == [brackets, hidden]
            assert (await q.read_state()).stats.in_progress == 2

    async def test_enqueue_many_keeps_the_order(self) -> None:
        async with self.open() as q:
            assert len(await q.enqueue_many("mail", [])) == 0
            ids = await q.enqueue_many("mail", range(50), priority=1)
            jobs = (await q.read_state()).queued_jobs()
            assert [int(await q.fetch_payload(job)) for job in jobs] == list(range(50))
            assert [job.id for job in jobs] == list(ids) == sorted(ids)
            assert (len(ids), ids[0], ids[-1], ids[48:]) == (50, jobs[0].id, jobs[-1].id, list(ids)[48:])

    async def test_ack_many_finishes_what_it_can_and_names_the_rest(self) -> None:
        async with self.open() as q:
            await q.enqueue_many("mail", range(3))
            jobs: list[Job | str] = [*await q.dequeue(batch_size=3)]
            refused = await q.ack_many([*jobs[:2], "nobody"])
            assert [error.job_id for error in refused] == ["nobody"]
            assert (await q.read_state()).stats.completed_total == 2
            assert await q.ack_many([]) == []

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

    async def _dead_job(self, q: Queue, entrypoint: str, payload: Any, key: str | None = None) -> Job:
        options: JobOptions = {"max_attempts": 1}
        if key is not None:
            options["key"] = key
        await q.enqueue(entrypoint, payload, **options)
        [job] = await q.dequeue(entrypoint)
        return await q.nack(job, "boom")

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

    async def test_an_empty_batch_is_finished_at_once(self) -> None:
        async with self.open() as q:
            batch = await q.enqueue_batch("resize", [], then=("publish", b"x"))
            [job] = await q.dequeue()
            assert (job.id, job.payload) == (batch.id, b"x")
            assert await q.batch(batch.id) == (0, 0, 0)

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

    async def test_a_schedule_enqueues_a_job_at_each_of_its_times(self) -> None:
        async with self.open() as q:
            made = await q.schedule(
                "beat", "mail", {"n": 1}, -1, every=1, missed="all", timeout=60, key="beat"
            )
            assert await q.schedules() == [made]
            assert made.next_at is not None
            [job] = await q.dequeue("mail", wait=20)
            assert (job.json(), job.priority, job.timeout_s, job.key) == ({"n": 1}, -1, 60.0, "beat")
            assert job.run_at == made.next_at
            [found] = await q.schedules()
            assert found.last_at is not None
            assert found.next_at is not None
            assert found.next_at > found.last_at >= job.run_at
            await q.ack(job)

    async def test_schedules_are_replaced_listed_and_removed(self) -> None:
        async with self.open() as q:
            assert await q.schedules() == []
            cron: Any = {"cron": "30 9 * * MON-FRI", "tz": "Europe/Vienna"}
            report = await q.schedule("report", "mail", b"\x00", **cron, max_attempts=7, expires_in=60)
            poll = await q.schedule("poll", "feed", every=timedelta(hours=1))
            assert {one.name: one for one in await q.schedules()} == {"report": report, "poll": poll}
            assert (report.cron, report.tz, report.every_s) == ("30 9 * * MON-FRI", "Europe/Vienna", 0.0)
            assert (report.job.payload, report.job.max_attempts) == (b"\x00", 7)
            assert (poll.cron, poll.every_s, poll.missed) == (None, 3600.0, "last")
            again = await q.schedule("poll", "feed", b"other", every=3600, missed="skip")
            assert (again.next_at, again.job.payload, again.missed) == (poll.next_at, b"other", "skip")
            sooner = await q.schedule("poll", "feed", every=60)
            assert sooner.next_at is not None
            assert poll.next_at is not None
            assert sooner.next_at < poll.next_at
            await q.unschedule("poll")
            assert await q.schedules() == [report]
            with raises(ScheduleNotFoundError):
                await q.unschedule("poll")
            state = await q.read_state()
            assert (list(state.schedules), state.stats.enqueued_total) == ([report], 0)

    async def test_schedules_that_make_no_sense_are_refused(self) -> None:
        async with self.open() as q:
            anything: Any = {"cron": "sometimes", "tz": "Mars/Olympus", "every": 0.5, "missed": "some"}
            wrong_calls: list[Coroutine[Any, Any, Any]] = [
                q.schedule("s", "mail"),
                q.schedule("", "mail", every=60),
                q.schedule("s", "", every=60),
                q.schedule("s", "mail", every=60, cron="* * * * *"),
                q.schedule("s", "mail", every=60, delay=5),
                q.schedule("s", "mail", cron=anything["cron"]),
                q.schedule("s", "mail", cron="* * * * *", tz=anything["tz"]),
                q.schedule("s", "mail", every=anything["every"]),
                q.schedule("s", "mail", every=60, missed=anything["missed"]),
            ]
            for wrong_call in wrong_calls:
                with raises(ConfigurationError):
                    await wrong_call
            with raises(PayloadError):
                await q.schedule("s", "mail", b"x" * 70_000, every=60)
            assert await q.schedules() == []

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

    async def test_the_snapshot_belongs_to_the_reader(self) -> None:
        async with self.open() as q:
            await q.enqueue("mail")
            state = await q.read_state()
            await q.dequeue()
            assert state.stats.queued == 1
            assert (await q.read_state()).stats.queued == 0

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


@contextmanager
def raises(expected: type[BaseException]) -> Iterator[list[BaseException]]:
    """Fail unless the block raises `expected`; the list then holds it."""
    caught: list[BaseException] = []
    try:
        yield caught
    except expected as error:
        caught.append(error)
    else:
        raise AssertionError(f"{expected.__name__} was not raised")
