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
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from bucketq.errors import (
    BucketQError,
    ClaimLostError,
    ConfigurationError,
    JobNotFoundError,
    PayloadError,
)
from bucketq.job import Job, JobStatus
from bucketq.queue import Queue


@dataclass
class Mail:
    """A payload as a dataclass."""

    to: str


class Picture(msgspec.Struct):
    """A payload as a msgspec Struct."""

    width: int


class QueueContract:
    """The behaviour of a queue, as tests. Every call of `open` gives a new, empty queue."""

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
