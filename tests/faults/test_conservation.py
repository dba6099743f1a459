"""A mistake in the queue itself: a commit that would lose or double a job is not written."""

import pytest

from bucketq import BrokerQueue, DirectQueue
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage


def slip(state):
    """Finish a job that there is not."""
    state.completed_total += 1
    state.changes += 1


@pytest.mark.parametrize("open_queue", [BrokerQueue, DirectQueue])
@virtual_time
async def test_a_commit_that_does_not_add_up_is_not_written_and_the_queue_goes_on(open_queue):
    storage = FaultyStorage()
    async with open_queue(storage, clock=VirtualClock()) as q:
        await q.enqueue("mail", 1)
        before = await storage.inner.read()
        with pytest.raises(AssertionError, match="would lose or double a job"):
            await q._submit(slip)
        assert await storage.inner.read() == before
        await q.enqueue("mail", 2)
        stats = await q.stats()
    assert (stats.queued, stats.completed_total) == (2, 0)
