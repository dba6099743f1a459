"""Whole segments in the simulator: an actor that claims them, well and badly.

Only some seeds draw it, so that what the others do stays as it was.
"""

import asyncio
from contextlib import suppress

from bucketq import BucketQError
from bucketq.operation import Bury, Crash, Nack
from tests.sim.actors import ENTRYPOINTS, deserter, onlooker, producer, slow_worker, worker, zombie


def claims_segments(seed):
    """Whether this seed is about whole segments."""
    return seed >= 1000 and seed % 4 == 2


async def segment_worker(q, world):
    """Takes all jobs of a segment, and accounts for them; in a storm not always, nor in time."""
    while True:
        with suppress(BucketQError):
            entrypoint = world.random.choice(ENTRYPOINTS)
            claim = await q.dequeue_segment(entrypoint)
            if claim is not None:
                await work_on(q, world, claim)
            else:
                for job in await q.dequeue(entrypoint, 2, 0):
                    await q.ack(job)
        await asyncio.sleep(world.random.uniform(0, 0.5))


async def work_on(q, world, claim):
    jobs = await q.read_segment(claim)
    mood = world.random.choice(["good", "good", "good", "slow", "late", "leaving", "two-faced", "gone"])
    if not world.is_stormy or mood == "good":
        await asyncio.sleep(world.random.uniform(0, 1))
    elif mood == "slow":
        for _ in range(world.random.randint(1, 8)):
            await asyncio.sleep(q.stale_after_s / 3)
            await q.heartbeat_segment(claim, jobs)
    elif mood == "late":
        await asyncio.sleep(world.random.uniform(0, 3 * q.stale_after_s))
    elif mood == "gone":
        return
    elif mood in ("leaving", "two-faced"):
        await q.release_segment(claim, jobs)
        if mood == "leaving":
            return
        # It has given them back, and comes with results all the same.
        await asyncio.sleep(world.random.uniform(0, q.stale_after_s))
    await settle(q, world, claim, jobs)


async def settle(q, world, claim, jobs):
    """Most jobs are completed; in a storm some fail, and some are not begun."""
    fates = ["done", "done", "nack", "bury", "crash", "rest"] if world.is_stormy else ["done"]
    drawn = [(job, world.random.choice(fates)) for job in jobs]
    done, rest = ([job for job, fate in drawn if fate == kind] for kind in ("done", "rest"))
    now = q.now()
    failures = {
        "nack": lambda claim: Nack(claim, "boom", now),
        "bury": lambda claim: Bury(claim, "never", now),
        "crash": lambda claim: Crash(claim, now),
    }
    failed = [(job, failures[fate]) for job, fate in drawn if fate in failures]
    await q.settle_segment(claim, done, failed, rest)


SEGMENT_ACTORS = [producer, segment_worker, segment_worker, worker, slow_worker, zombie, deserter, onlooker]
