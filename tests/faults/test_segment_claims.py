"""Claims on whole segments under crashes, lost answers, silence and damage: no job is lost or doubled."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest
from faulty import FaultyStorage
from test_archive import archived, objects_of

from bucketq import (
    BrokerQueue,
    ClaimLostError,
    DirectQueue,
    Settings,
    StorageError,
    UnusableStorageError,
)
from bucketq.archive import Archive, Wanted
from bucketq.codec import decode
from bucketq.job import Claim
from bucketq.mint import Mint
from bucketq.operation import Bury, Nack
from bucketq.segment_claim import CompletedJobs
from bucketq.side_objects import SideObjects
from bucketq.testing.virtual_time import Process, VirtualClock, run
from bucketq.verify import verify

HOUR_S = 3600
SMALL = {"hot_jobs_max": 10, "segment_jobs_max": 8, "stale_after_s": 60}
JOBS = 24
FAULTS = ["conflict", "lost answer", "lost, retried", "lost request", "late", "slow down"]


def settings(**others):
    return Settings(**SMALL | others)


def broker(storage, **others):
    return BrokerQueue(storage, settings=settings(**others), clock=VirtualClock())


def direct(storage, **others):
    return DirectQueue(storage, settings=settings(**others), clock=VirtualClock())


async def load(storage, jobs=JOBS):
    async with broker(storage) as q:
        return list(await q.enqueue_many("mail", [{"n": number} for number in range(jobs)]))


class Work:
    """What the holder of a segment does: some jobs are completed, one fails, some are not begun."""

    def __init__(self, storage, q):
        self._objects = SideObjects(storage.objects, settings(), VirtualClock(), Mint())
        self._q = q

    async def take(self):
        self.claim = await self._q.dequeue_segment("mail")
        return self.claim

    async def jobs(self):
        return self.claim.jobs(await self._objects.read(self.claim.segment.name))

    async def complete(self, jobs):
        completed = CompletedJobs()
        for job in jobs:
            completed.add(job, VirtualClock().now())
        return await self._objects.create_staged(completed, self.claim.version)

    async def give_back(self, jobs):
        return await self._objects.create_rest(jobs, self.claim.version)

    async def settle(self):
        """Claim a segment, and account for all of it."""
        await self.take_and_beat()
        failing, *jobs = await self.jobs()
        failed = [Nack(Claim.of(failing), "boom", VirtualClock().now())]
        done, rest = jobs[:4], jobs[4:]
        await self._q.settle_segment(
            self.claim, await self.complete(done), failed, await self.give_back(rest) if rest else ()
        )

    async def settle_completed(self):
        await self.take()
        await self._q.settle_segment(self.claim, await self.complete(await self.jobs()))

    async def take_and_beat(self):
        await self.take()
        await self._q.heartbeat_segment(self.claim)


async def finish(storage):
    """Let everything be done, by segments where that is possible; and let what is left over be collected."""
    async with broker(storage, collect_after_s=1) as q:
        await q.stats()
        await asyncio.sleep(61)
        while (await q.stats()).queued:
            work = Work(storage, q)
            if await work.take():
                await q.settle_segment(work.claim, await work.complete(await work.jobs()))
            else:
                assert await q.ack_many(await q.dequeue("mail", batch_size=5)) == []
        await asyncio.sleep(100)
        await q.collect_garbage()


async def check_all_done_once(storage, ids):
    assert Counter(job.id for job in await archived(storage)) == Counter(ids)
    verdict = await verify(storage)
    assert verdict.problems == []
    assert verdict.notes == []
    assert storage.names == set(), "nothing is left beside the queue"


class Mortal:
    """A storage whose process is killed at its n-th request: before that is done, or right after."""

    def __init__(self, storage, process, requests, *, is_after):
        self._storage = storage
        self._process = process
        self._left = requests
        self._is_after = is_after
        self.objects = MortalObjects(self, storage.objects)

    async def read(self):
        return await self.reach(self._storage.read())

    async def read_if_changed(self, etag):
        return await self.reach(self._storage.read_if_changed(etag))

    async def write(self, content, if_match=None):
        return await self.reach(self._storage.write(content, if_match))

    async def reach(self, request):
        self._left -= 1
        if self._left > 0:
            return await request
        if self._left == 0 and self._is_after:
            await request
        else:
            request.close()
        if self._left == 0:
            self._process.kill()
            # It goes no further than this, until it is buried.
            await asyncio.sleep(0)
        raise UnusableStorageError("its process is dead")


class MortalObjects:
    def __init__(self, mortal, objects):
        self._mortal = mortal
        self._objects = objects

    async def read(self, name):
        return await self._mortal.reach(self._objects.read(name))

    async def create(self, name, content):
        return await self._mortal.reach(self._objects.create(name, content))

    async def delete(self, name):
        return await self._mortal.reach(self._objects.delete(name))

    def list(self, prefix=""):
        return self._objects.list(prefix)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_process_that_dies_at_any_step_loses_and_doubles_nothing(is_after):
    async def dies_at(number):
        storage = FaultyStorage()
        ids = await load(storage)
        process = Process("mortal")
        mortal = Mortal(storage, process, number, is_after=is_after)

        async def live():
            async with broker(mortal) as q:
                await Work(mortal, q).settle()
                # Until the batch is archived, let go of, and its parts are removed.
                await asyncio.sleep(50)

        life = process.start(live())
        try:
            await asyncio.wait([life], timeout=60)
            has_died = not process.is_alive
            await finish(storage)
            await check_all_done_once(storage, ids)
        finally:
            process.bury()
            await asyncio.wait([life])
        with suppress(UnusableStorageError):
            await life
        return has_died

    # Until it has lived through all of it.
    steps = next(number for number in count(1) if not run(dies_at(number)))
    assert steps > 12


@pytest.mark.parametrize("open_queue", [broker, direct])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_takes_effect_once_whatever_becomes_of_its_answer(open_queue, fault):
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        q = open_queue(storage)
        async with q:
            work = Work(storage, q)
            storage.faults.extend([fault] * 2)
            await work.take()
            assert (await q.stats()).in_progress == work.claim.segment.count
            storage.faults.append(fault)
            await q.release_segment(work.claim)
            assert (await q.stats()).queued == JOBS
            work = Work(storage, q)
            await work.take()
            storage.faults.append(fault)
            await q.heartbeat_segment(work.claim)
            completed = await work.complete(await work.jobs())
            storage.faults.extend([fault] * 2)
            await q.settle_segment(work.claim, completed)
            stats = await q.stats()
            assert (stats.completed_total, stats.in_progress) == (work.claim.segment.count, 0)
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


@pytest.mark.parametrize("fault", ["lost answer", "lost request", "slow down"])
def test_objects_whose_answer_is_lost_are_written_once(fault):
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        async with broker(storage) as q:
            work = Work(storage, q)
            await work.take()
            jobs = await work.jobs()
            storage.object_faults.append(fault)
            completed = await work.complete(jobs[:3])
            storage.object_faults.append(fault)
            rest = await work.give_back(jobs[3:])
            storage.object_faults.extend([fault] * 3)
            await q.settle_segment(work.claim, completed, rest=rest)
            await asyncio.sleep(100)
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


def test_a_claimer_that_comes_too_late_is_refused_and_its_objects_are_collected():
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        async with broker(storage) as claiming, broker(storage) as watching:
            work = Work(storage, claiming)
            await work.take()
            jobs = await work.jobs()
            completed, rest = await work.complete(jobs[:2]), await work.give_back(jobs[2:])
            await watching.stats()
            await asyncio.sleep(61)
            again = await watching.dequeue("mail", batch_size=2)
            assert [(job.id, job.attempts, job.crashes) for job in again] == [(ids[0], 2, 1), (ids[1], 2, 1)]
            assert again[0].history[0].worker == claiming.worker
            for refused in (
                claiming.settle_segment(work.claim, completed, rest=rest),
                claiming.heartbeat_segment(work.claim),
            ):
                with pytest.raises(ClaimLostError, match="drop its results"):
                    await refused
            await claiming.release_segment(work.claim)
            await watching.ack_many(again)
            left = {part.name for part in completed} | {segment.name for segment in rest}
            assert left <= storage.names
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


def test_a_worker_whose_heart_beats_keeps_its_segment_whatever_the_clocks_say():
    async def main():
        storage = FaultyStorage()
        await load(storage)
        async with broker(storage) as claiming, broker(storage) as watching:
            work = Work(storage, claiming)
            await work.take()
            for _ in range(10):
                await asyncio.sleep(50)
                await claiming.heartbeat_segment(work.claim)
                await watching.stats()
            await claiming.settle_segment(work.claim, await work.complete(await work.jobs()))
            assert (await watching.stats()).completed_total == work.claim.segment.count

    run(main())


def test_a_claim_whose_caller_went_away_is_given_back():
    async def main():
        storage = FaultyStorage()
        await load(storage)
        async with broker(storage) as q:
            await q.stats()
            storage.latency_s = 1
            calling = asyncio.create_task(q.dequeue_segment("mail"))
            await asyncio.sleep(0.5)
            calling.cancel()
            await asyncio.wait([calling])
            await asyncio.sleep(5)
            storage.latency_s = 0
            stats = await q.stats()
            assert (stats.queued, stats.in_progress) == (JOBS, 0)
            assert await q.dequeue_segment("mail") is not None

    run(main())


def test_the_jobs_bytes_do_not_pass_queue_json_and_the_driver_reads_none_of_them():
    async def main():
        storage = FaultyStorage()
        await load(storage)
        storage.versions.clear()
        async with broker(storage) as q:
            work = Work(storage, q)
            await work.settle_completed()
            await asyncio.sleep(50)
        assert not any(b'"n"' in version for version in storage.versions)
        # The worker's own read, and that of the part on its way to the archive.
        assert storage.object_reads == 2
        assert len(await archived(storage)) == work.claim.segment.count
        assert len(storage.versions) == 3, "claimed, settled, let go of"

    run(main())


def test_a_reader_sees_each_job_once_at_each_moment():
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        seen = []

        async def look(request):
            outcome = await request
            content, _ = await storage.inner.read()
            damages = []
            archive = Archive(storage.inner, damages.append, VirtualClock())
            found = Counter([job.id async for job in archive.jobs()])
            assert damages == []
            assert found.total() == len(found) == decode(content).stats.completed_total
            assert all([(await archive.find(job_id)).id == job_id for job_id in found])
            assert (await verify(storage.inner)).problems == []
            seen.append(len(found))
            return outcome

        watched = Mortal(storage, None, -1, is_after=True)
        watched.reach = look
        async with broker(watched) as q:
            for _ in range(2):
                await Work(watched, q).settle()
                await asyncio.sleep(50)
                # What failed stands before the rest again.
                await q.ack_many(await q.dequeue("mail"))
        assert {0, 4, 5, 7, 8} == set(seen)
        assert seen.count(4) > 5, "also while the batch is on its way"
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_reader_that_is_slow_finds_a_batch_that_has_arrived_meanwhile(is_compacted):
    async def main():
        storage = FaultyStorage()
        await load(storage)
        async with broker(storage, collect_after_s=1) as q:
            storage.object_latency_s = 5
            await Work(storage, q).settle_completed()
            archive = Archive(storage.inner, clock=VirtualClock())
            pieces, state = await archive.plan(Wanted())
            assert [batch.total for batch in state.ledger.sealed.values()] == [8]
            storage.object_latency_s = 0
            await asyncio.sleep(100)
            assert not any(name.startswith("staged/") for name in storage.beside)
            if is_compacted:
                await Work(storage, q).settle_completed()
                for _ in range(3):
                    await asyncio.sleep(1.5 * HOUR_S)
                    await q.stats()
                    await asyncio.sleep(60)
                assert [name for name in objects_of(storage) if "-0000" in name.rpartition("/")[2]]
            read = [job.id async for _, jobs in archive.read(pieces, state.ledger) for job in jobs]
            assert len(read) == len(set(read)) == 8

    run(main())


def test_lines_and_parts_of_one_hour_and_version_are_one_object():
    async def main():
        storage = FaultyStorage()
        await load(storage)
        async with broker(storage, archive_jobs_max=1) as q:
            works = [Work(storage, q), Work(storage, q)]
            for work in works:
                await work.take()
            [first, *others], jobs = [await work.jobs() for work in works]
            completed = [await works[0].complete(others), await works[1].complete(jobs)]
            dead = [Bury(Claim.of(first), "never", VirtualClock().now())]
            with suppress(TimeoutError):
                # So that the segment is at hand.
                await q.result(first.id, timeout=1)
            storage.latency_s = 0.1
            await asyncio.gather(
                q.stats(),
                q.settle_segment(works[0].claim, completed[0], dead),
                q.settle_segment(works[1].claim, completed[1]),
            )
            await asyncio.sleep(50)
        [content] = objects_of(storage).values()
        assert len(content) == 16
        assert [job["id"] for job in content] == [
            first.id,
            *(job.id for job in others),
            *(job.id for job in jobs),
        ]
        assert (await verify(storage)).problems == []

    run(main())


def test_without_an_archive_completed_jobs_are_only_counted():
    async def main():
        storage = FaultyStorage()
        await load(storage)
        async with broker(storage, archive=False) as q:
            await Work(storage, q).settle_completed()
            assert (await q.stats()).completed_total == 8
        assert not [name for name in storage.beside if name.startswith(("staged/", "archive/"))]

    run(main())


def test_what_is_claimed_or_staged_stays_however_old():
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        async with broker(storage, collect_after_s=100, stale_after_s=1000 * HOUR_S) as q:
            first, second = Work(storage, q), Work(storage, q)
            await first.take()
            await second.take()
            storage.object_latency_s = 10
            await q.settle_segment(first.claim, await first.complete(await first.jobs()))
            storage.object_faults.extend(["lost request"] * 100)
            await asyncio.sleep(60)
            assert (await storage.document())["staged"]
            storage.object_faults.clear()
            storage.object_latency_s = 0
            await asyncio.sleep(2)
            content, _ = await storage.inner.read()
            needed = decode(content).object_names()
            await asyncio.sleep(200)
            await q.collect_garbage()
            assert {name for name in needed if name.startswith("backlog/")} <= storage.names
            await second.give_back(await second.jobs())
            await asyncio.sleep(200)
            await q.collect_garbage()
            with pytest.raises(StorageError, match="do it again, in less time"):
                await q.settle_segment(second.claim, await second.complete(await second.jobs()))
            await q.release_segment(second.claim)
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


def vanish(storage, name):
    del storage.beside[name]


def cut_short(storage, name):
    content, at = storage.beside[name]
    storage.beside[name] = content[:-20], at


@pytest.mark.parametrize("damage", [vanish, cut_short])
@pytest.mark.parametrize("folder", ["staged/", "backlog/"])
def test_damage_is_told_and_all_goes_on_once_it_is_repaired(folder, damage):
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        async with broker(storage) as q:
            first, second = Work(storage, q), Work(storage, q)
            await first.take()
            parts = await first.complete(await first.jobs())
            await second.take()
            if folder == "staged/":
                [name] = [part.name for part in parts]
                whole = storage.beside[name]
                damage(storage, name)
                await q.settle_segment(first.claim, parts)
            else:
                await q.settle_segment(first.claim, parts)
                name = second.claim.segment.name
                whole = storage.beside[name]
                damage(storage, name)
            await asyncio.sleep(5)
            problems = (await verify(storage)).problems
            assert problems
            assert any(name in problem or "archive/" in problem for problem in problems)
            storage.beside[name] = whole
            await asyncio.sleep(50)
            await q.release_segment(second.claim)
            await asyncio.sleep(50)
        await finish(storage)
        await check_all_done_once(storage, ids)

    run(main())


def test_who_waits_for_a_result_gets_it_while_that_is_on_its_way():
    async def main():
        storage = FaultyStorage()
        ids = await load(storage)
        async with broker(storage) as q, broker(storage) as waiting:
            result = asyncio.create_task(waiting.result(ids[0], timeout=100))
            await asyncio.sleep(1)
            storage.object_latency_s = 3
            await Work(storage, q).settle_completed()
            assert json.loads((await storage.inner.read())[0])["staged"]
            assert await result is None

    run(main())
