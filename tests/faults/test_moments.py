"""Moments: what is told of a job is in the order in which it happened."""

import asyncio
from datetime import timedelta

from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

opened = queues_with(archive=False)
SECOND = timedelta(seconds=1)


@virtual_time
async def test_a_child_begins_after_its_parent_has_finished():
    storage = FaultyStorage()
    async with opened(storage) as q:
        parent = await q.enqueue("mail")
        child = await q.enqueue("bill", after=[parent])
        [claimed] = await q.dequeue("mail")
        storage.latency_s = 3.0
        other = asyncio.create_task(q.enqueue("other"))
        await asyncio.sleep(1)
        # They wait for that commit, in one batch, and the claim was asked for first.
        asking = asyncio.create_task(q.dequeue("bill", wait=20))
        await asyncio.sleep(1)
        asked_at = q._clock.now()
        await q.ack(claimed)
        [begun] = await asking
        assert begun.id == child.id
        assert begun.claimed_at >= asked_at
        await other
