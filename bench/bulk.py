"""Bulk: the requests of many jobs at once, enqueued or taken in various ways, counted in virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from bench.cloud import CountedCloud
from bench.cost import Count
from bucketq import BrokerQueue
from bucketq.mint import Mint
from bucketq.prices import Requests
from bucketq.segment_claim import CompletedJobs
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.testing.virtual_time import VirtualClock, run

FEW, MANY = 1_000, 100_000
_TASKS = 8
_AT_ONCE = 100
_PAYLOAD = b'{"pad":"' + 100 * b"x" + b'"}'

Step = Callable[[BrokerQueue, CountedCloud, int], Awaitable[None]]


def count_bulk(jobs: int, before: Step | None, step: Step) -> Count:
    """Count what a step costs, for so many jobs, after the one before it."""
    return run(_count(jobs, before, step))


async def _count(jobs: int, before: Step | None, step: Step) -> Count:
    cloud = CountedCloud()
    async with BrokerQueue(cloud, clock=VirtualClock(), mint=Mint(random.Random(7))) as queue:
        # The one read that opens the queue, and its creation.
        await queue.enqueue("other")
        if before is not None:
            await before(queue, cloud, jobs)
        began, began_s = cloud.account.requests, _now_s()
        await step(queue, cloud, jobs)
    requests = Requests(*(late - early for late, early in zip(cloud.account.requests, began, strict=True)))
    return Count(requests=requests, jobs=jobs, seconds=_now_s() - began_s, wait_s=0.0)


async def enqueue_one_by_one(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """Each call waits for the one before."""
    for _ in range(jobs):
        await queue.enqueue("work", _PAYLOAD)


async def enqueue_together(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """As many callers as jobs, at the same moment."""
    await asyncio.gather(*(queue.enqueue("work", _PAYLOAD) for _ in range(jobs)))


async def enqueue_many(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """All by one call."""
    await queue.enqueue_many("work", (_PAYLOAD for _ in range(jobs)))


async def load_by_spark(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """What the tasks and the driver of Spark do, without Spark."""
    # Not everybody who counts something has Spark.
    import pyarrow as pa

    from bucketq.spark.loading import Defaults, TaskLoad, land

    rows = pa.RecordBatch.from_pydict({"payload": [_PAYLOAD] * (jobs // _TASKS)})
    loaded = []
    for _ in range(_TASKS):
        task = TaskLoad(cloud, 0, Defaults("work", 0, 3))
        await task.add(rows)
        loaded.append(await task.finish())
    await land(cloud, loaded)


async def drain(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """A hundred jobs are claimed at a time, and settled together with the next claim."""
    settling: asyncio.Future[object] = asyncio.ensure_future(asyncio.sleep(0))
    while claimed := await queue.dequeue("work", batch_size=_AT_ONCE):
        await settling
        settling = asyncio.ensure_future(queue.ack_many(claimed))
        # So that it is submitted before the next claim.
        await asyncio.sleep(0)
    await settling


async def drain_segments(queue: BrokerQueue, cloud: CountedCloud, jobs: int) -> None:
    """What the driver and the executors of a Spark fleet do with whole segments, a task for each."""
    clock = VirtualClock()
    objects = SideObjects(cloud.objects, Settings(), clock, Mint(random.Random(8)))
    while claim := await queue.dequeue_segment("work"):
        completed = CompletedJobs()
        for job in claim.jobs(await objects.read(claim.segment.name)):
            completed.add(job, clock.now())
        await queue.settle_segment(claim, await objects.create_staged(completed, claim.version))
    await drain(queue, cloud, jobs)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
