"""Segments: all jobs of one are claimed at once, and settled at once."""

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bucketq.errors import ClaimLostError, ConfigurationError, JobNotFoundError
from bucketq.job import Claim, Job, JobStatus
from bucketq.ledger import StagedPart
from bucketq.operation import Bury, Crash, Heartbeat, Nack
from bucketq.queue import Queue
from bucketq.segment_claim import CompletedJobs, SegmentClaim
from bucketq.side_objects import SideObjects
from bucketq.storage import Bucket
from bucketq.testing.contract.suite import QueueSuite, raises

_BEYOND_SEGMENTS = 3


class Segments(QueueSuite):
    """Claiming and settling whole segments."""

    async def test_a_segment_goes_all_the_way(self) -> None:
        async with self._loaded() as (q, ids):
            claim = await self._claim(q)
            count = claim.segment.count
            assert count > 1
            assert (await q.stats()).in_progress == count
            jobs = await _jobs(q, claim)
            assert [job.id for job in jobs] == ids[:count], "in the order of their enqueueing"
            assert {(job.status, job.attempts, job.token) for job in jobs} == {
                (JobStatus.IN_PROGRESS, 1, claim.hold.token)
            }
            await q.heartbeat_segment(claim)
            await q.settle_segment(claim, await _completed(q, claim, jobs))
            stats = await q.stats()
            assert (stats.completed_total, stats.in_progress, stats.queued) == (count, 0, len(ids) - count)
            assert await q.result(ids[0], timeout=20) == {"was": ids[0]}
            assert await q.find(ids[0]) is None
            for refused in (q.heartbeat_segment(claim), q.settle_segment(claim)):
                with raises(ClaimLostError):
                    await refused

    async def test_each_job_of_a_segment_has_its_own_outcome(self) -> None:
        async with self._loaded() as (q, ids):
            claim = await self._claim(q)
            again, dead, crashed, done, *others = await _jobs(q, claim)
            now = datetime.now(UTC)
            failed: list[Nack | Bury | Crash] = [
                Nack(Claim.of(again), "not now", now, 0.0, "line 7"),
                Bury(Claim.of(dead), "never", now),
                Crash(Claim.of(crashed), now),
            ]
            rest = await _objects(q).create_rest(others, claim.version) if others else ()
            await q.settle_segment(claim, await _completed(q, claim, [done]), failed, rest)
            stats = await q.stats()
            assert (stats.queued, stats.in_progress) == (len(ids) - 2, 0)
            assert (stats.completed_total, stats.dead_total) == (1, 1)
            assert [job.id async for job in q.dead()] == [dead.id]
            first, second = await q.dequeue("mail", batch_size=2)
            assert [(job.id, job.attempts, job.crashes) for job in (first, second)] == [
                (again.id, 2, 0),
                (crashed.id, 2, 1),
            ]
            assert first.history[0].trace == "line 7"
            assert second.history[0].outcome == "stale"
            [third] = await q.dequeue("mail")
            assert (third.id, third.attempts, third.history) == (ids[4], 1, ()), "not begun, so at no cost"

    async def test_a_job_of_a_settled_segment_may_stay_claimed(self) -> None:
        async with self._loaded() as (q, _):
            claim = await self._claim(q)
            kept, *others = await _jobs(q, claim)
            beat = Heartbeat(Claim.of(kept), datetime.now(UTC))
            await q.settle_segment(claim, await _completed(q, claim, others), [beat])
            assert (await q.stats()).in_progress == 1
            async with q.transaction() as transaction:
                transaction.ack(kept, "last")
                transaction.enqueue("follow")
            assert await q.result(kept.id, timeout=20) == "last"

    async def test_jobs_at_hand_come_before_segments(self) -> None:
        async with self._loaded() as (q, ids):
            with raises(ConfigurationError):
                await q.dequeue("mail", at_hand=True, wait=5)
            assert await q.dequeue("mail", batch_size=5, at_hand=True) == [], "the next one is in a segment"
            [first] = await q.dequeue("mail")
            taken = await q.dequeue("mail", batch_size=len(ids), at_hand=True)
            assert len(taken) < len(ids) - 1
            claim = await self._claim(q)
            found = [first, *taken, *await _jobs(q, claim)]
            assert [job.id for job in found] == ids[: len(found)]

    async def test_what_was_not_begun_can_be_claimed_as_a_segment_again(self) -> None:
        async with self._loaded() as (q, ids):
            claim = await self._claim(q)
            done, *others = await _jobs(q, claim)
            rest = await _objects(q).create_rest(reversed(others), claim.version)
            await q.settle_segment(claim, await _completed(q, claim, [done]), rest=rest)
            again = await self._claim(q)
            assert [job.id for job in await _jobs(q, again)] == ids[1 : 1 + again.segment.count]

    async def test_a_released_segment_has_cost_nothing(self) -> None:
        async with self._loaded() as (q, ids):
            claim = pickle.loads(pickle.dumps(await self._claim(q)))
            await q.release_segment(claim)
            await q.release_segment(claim)
            assert (await q.stats()).queued == len(ids)
            [job] = await q.dequeue("mail")
            assert (job.id, job.attempts, job.history) == (ids[0], 1, ())

    async def test_the_jobs_of_a_silent_worker_have_crashed_once(self) -> None:
        async with self._loaded() as (q, ids):
            claim = await self._claim(q)
            jobs = await _jobs(q, claim)
            completed = await _completed(q, claim, jobs)
            assert await q.requeue_stale(timedelta(seconds=-60)) == claim.segment.count
            with raises(ClaimLostError):
                await q.settle_segment(claim, completed)
            assert (await q.stats()).completed_total == 0
            assert await q.dequeue_segment("mail") is None, "any of them may be to blame"
            taken = await q.dequeue("mail", batch_size=len(jobs))
            assert [job.id for job in taken] == ids[: len(taken)]
            assert {(job.attempts, job.crashes, job.history[0].outcome) for job in taken} == {(2, 1, "stale")}
            assert {job.history[0].worker for job in taken} == {claim.hold.worker}

    async def test_a_settlement_has_to_account_for_all_jobs(self) -> None:
        async with self._loaded() as (q, _):
            claim = await self._claim(q)
            jobs = await _jobs(q, claim)
            now = datetime.now(UTC)
            most, all_of_them = await _completed(q, claim, jobs[1:]), await _completed(q, claim, jobs)
            stranger = Nack(Claim("a stranger", claim.hold.token), "boom", now)
            twice = [Nack(Claim.of(jobs[0]), "boom", now)] * 2
            wrong = [
                q.settle_segment(claim, most),
                q.settle_segment(claim, all_of_them, [twice[0]]),
                q.settle_segment(claim, await _completed(q, claim, jobs[2:]), twice),
                q.settle_segment(claim, most, [stranger]),
            ]
            for refused in wrong:
                with raises(ConfigurationError):
                    await refused
            stats = await q.stats()
            assert (stats.in_progress, stats.completed_total) == (len(jobs), 0)
            await q.settle_segment(claim, all_of_them)

    async def test_jobs_of_a_claimed_segment_are_found_and_nobody_elses(self) -> None:
        async with self._loaded() as (q, ids):
            claim = await self._claim(q)
            found = await q.find(ids[0])
            assert found is not None
            assert (found.status, found.token) == (JobStatus.IN_PROGRESS, claim.hold.token)
            assert len((await q.read_state()).in_progress_jobs()) == claim.segment.count
            for refused in (q.ack(found), q.nack(found), q.heartbeat(found)):
                with raises(ClaimLostError):
                    await refused
            with raises(JobNotFoundError) as caught:
                await q.cancel(ids[0])
            assert "whole segment" in str(caught[0])

    async def test_who_waits_for_a_job_of_a_segment_hears_of_its_end(self) -> None:
        async with self._loaded() as (q, _):
            claim = await self._claim(q)
            done, failed, *others = jobs = await _jobs(q, claim)
            waiting = [await q.enqueue("follow", after=[job]) for job in (done, failed, others[0])]
            now = datetime.now(UTC)
            rest = await _objects(q).create_rest(others, claim.version)
            completed = await _completed(q, claim, [done])
            await q.settle_segment(claim, completed, [Bury(Claim.of(failed), "never", now)], rest)
            assert [job.id for job in await q.dequeue("follow", batch_size=9)] == [waiting[0].id]
            assert await q.find(waiting[1]) is None, "cancelled, since its parent is dead"
            still = await q.find(waiting[2])
            assert still is not None
            assert still.status is JobStatus.BLOCKED
            late = await q.enqueue("follow", after=[done])
            assert late.status is JobStatus.QUEUED, "its parent is on its way to the archive"
            assert len(jobs) == claim.segment.count

    async def test_only_what_is_next_in_line_and_plain_is_claimed_so(self) -> None:
        async with self._loaded() as (q, ids):
            assert await q.dequeue_segment("nothing") is None
            first = await q.enqueue("mail", priority=-1)
            assert await q.dequeue_segment("mail") is None, "another job comes first"
            [job] = await q.dequeue("mail")
            assert job.id == first.id
            await q.ack(job)
            await q.pause("mail")
            assert await q.dequeue_segment("mail") is None
            await q.resume("mail")
            await q.limit("mail", max_running=1)
            assert await q.dequeue_segment("mail") is None
            await q.limit("mail")
            claim = await self._claim(q)
            await q.limit("mail", max_running=claim.segment.count)
            assert await q.dequeue("mail") == [], "the jobs of the segment are running"
            await q.settle_segment(claim, await _completed(q, claim, await _jobs(q, claim)))
            assert [job.id for job in await q.dequeue("mail")] == [ids[claim.segment.count]]
            total = q.settings.hot_jobs_max + _BEYOND_SEGMENTS
            await q.enqueue_many("special", [b""] * total, timeout=60)
            assert await q.dequeue_segment("special") is None

    async def _claim(self, q: Queue) -> SegmentClaim:
        claim = await q.dequeue_segment("mail", "worker-1")
        assert claim is not None
        assert claim.hold.worker == "worker-1"
        return claim

    @asynccontextmanager
    async def _loaded(self) -> AsyncIterator[tuple[Queue, list[str]]]:
        """A queue with so many jobs that they stand in segments, and their ids."""
        async with self.open() as q:
            yield q, list(await q.enqueue_many("mail", [b""] * (q.settings.hot_jobs_max + _BEYOND_SEGMENTS)))


def _objects(q: Queue) -> SideObjects:
    assert isinstance(q.storage, Bucket)
    return SideObjects(q.storage.objects, q.settings)


async def _jobs(q: Queue, claim: SegmentClaim) -> list[Job]:
    return claim.jobs(await _objects(q).read(claim.segment.name))


async def _completed(q: Queue, claim: SegmentClaim, jobs: list[Job]) -> tuple[StagedPart, ...]:
    completed = CompletedJobs()
    for job in jobs:
        completed.add(job, datetime.now(UTC), b'{"was":"%b"}' % job.id.encode())
    return await _objects(q).create_staged(completed, claim.version)
