"""The actors: coroutines that use a queue as programs do, good ones and bad ones.

An actor is `async def actor(q, world)`. `q` is a RecordedQueue, `world.random` the seeded
dice, `world.is_stormy` says whether bad behaviour is still allowed, `world.wanted` which
entrypoints workers ask for. A new one joins by standing in ACTORS.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from bucketq import BucketQError, HeartbeatManager, JobNotFoundError

ENTRYPOINTS = ["mail", "thumb"]
WANTED = [None, *ENTRYPOINTS]


async def producer(q, world):
    """Enqueues one or several, of any priority."""
    while world.is_stormy:
        with suppress(BucketQError):
            await q.enqueue(
                world.random.choice(ENTRYPOINTS),
                count=world.random.choice([1, 1, 1, 1, 1, 3, 3, 9]),
                priority=world.random.choice([0, 0, 0, 1, -1]),
                max_attempts=world.random.choice([1, 3, 50]),
            )
        await asyncio.sleep(world.random.expovariate(1))


async def worker(q, world):
    """Works fast, mostly succeeds."""
    await work_as(q, world, lambda job: world.random.uniform(0, 1))


async def slow_worker(q, world):
    """Takes longer than the stale timeout, but its heart beats."""

    async def act(job):
        async with HeartbeatManager(q, job, interval=timedelta(seconds=q.stale_after_s / 5)):
            await asyncio.sleep(world.random.uniform(0, 2.5 * q.stale_after_s if world.is_stormy else 1))

    await work_as(q, world, act)


async def zombie(q, world):
    """Falls silent for longer than allowed, comes back and acks all the same."""
    await work_as(q, world, lambda job: world.random.uniform(0, 3 * q.stale_after_s) * world.is_stormy)


async def transactor(q, world):
    """Finishes a job and starts the next one in the same instant."""

    async def act(job):
        await asyncio.sleep(world.random.uniform(0, 1))
        if world.is_stormy:
            await q.transaction(job, follow_up=world.random.choice(ENTRYPOINTS))
            return "settled"
        return None

    await work_as(q, world, act)


async def deserter(q, world):
    """Calls and walks away before the answer comes."""
    while True:
        waiting = asyncio.create_task(q.dequeue(None, batch_size=2, wait=world.random.choice([0, 1])))
        await asyncio.sleep(world.random.uniform(0, 0.2))
        waiting.cancel()
        await asyncio.wait([waiting])
        with suppress(BucketQError):
            for job in [] if waiting.cancelled() else waiting.result():
                await q.nack(job, error="not mine")
        await asyncio.sleep(world.random.uniform(0.5, 5) if world.is_stormy else 60)


async def onlooker(q, world):
    """Looks jobs up that it has seen before, reads the archive, and cleans up behind the dead."""
    seen = []
    while True:
        with suppress(BucketQError):
            jobs = await q.dequeue(None, batch_size=1, wait=0)
            seen += jobs
            for job in jobs:
                await q.nack(job, error="only looking")
            for job in world.random.sample(seen, min(3, len(seen))):
                await q.find(job)
            if world.is_stormy:
                await q.read_archive()
                await q.collect()
        await asyncio.sleep(world.random.uniform(1, 5) if world.is_stormy else 60)


async def work_as(q, world, act):
    """Claim, do what `act` says (a coroutine function or a number of seconds), settle."""
    while True:
        wanted = world.random.choice(world.wanted)
        batch_size, wait = world.random.choice([1, 1, 4]), world.random.choice([0, 0, 5])
        with suppress(BucketQError):
            for job in await q.dequeue(wanted, batch_size, wait):
                with suppress(JobNotFoundError):
                    await handle(q, world, act, job)
        await asyncio.sleep(world.random.uniform(0, 0.5))


async def handle(q, world, act, job):
    done = act(job)
    if isinstance(done, int | float):
        await asyncio.sleep(done)
    elif await done == "settled":
        return
    if world.is_stormy and world.random.random() < 0.2:
        await q.nack(job, error="boom")
    else:
        await q.ack(job)


ACTORS = [producer, producer, worker, worker, slow_worker, zombie, transactor, deserter, onlooker]
