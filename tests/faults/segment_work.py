"""A queue with its jobs in segments, and somebody who claims them as a whole; for the tests beside."""

import asyncio
from collections import Counter

from bucketq import DirectQueue, Settings, UnusableStorageError
from bucketq.job import Claim
from bucketq.mint import Mint
from bucketq.operation import Nack
from bucketq.segment_claim import CompletedJobs
from bucketq.side_objects import SideObjects
from bucketq.testing.virtual_time import VirtualClock
from bucketq.verify import verify
from tests.faults.faulty import queues_with
from tests.faults.test_archive import archived

SMALL = {"hot_jobs_max": 10, "segment_jobs_max": 8, "stale_after_s": 60}
JOBS = 24


SETTINGS = Settings(**SMALL)
broker = queues_with(**SMALL)


direct = queues_with(DirectQueue, **SMALL)


async def load(storage, jobs=JOBS):
    async with broker(storage) as q:
        return list(await q.enqueue_many("mail", [{"n": number} for number in range(jobs)]))


class Work:
    """What the holder of a segment does: some jobs are completed, one fails, some are not begun."""

    def __init__(self, storage, q):
        self._objects = SideObjects(storage.objects, SETTINGS, VirtualClock(), Mint())
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
