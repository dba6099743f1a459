"""Moments: what is told of a job is in the order in which it happened."""

import asyncio

from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

opened = queues_with(archive=False)


@virtual_time
async def test_a_child_begins_after_its_parent_has_finished():
    storage = FaultyStorage()
    slow = FaultyStorage(storage.inner)
    async with opened(storage) as q, opened(slow) as other:
        parent = await q.enqueue("mail")
        child = await q.enqueue("bill", after=[parent])
        [claimed] = await q.dequeue("mail")
        slow.latency_s = 3.0
        asking = asyncio.create_task(other.dequeue("bill"))
        # It was asked for before the parent was finished, and is applied after.
        await asyncio.sleep(1)
        finished_at = q._clock.now()
        await q.ack(claimed)
        [begun] = await asking
        assert begun.id == child.id
        assert begun.claimed_at >= finished_at
