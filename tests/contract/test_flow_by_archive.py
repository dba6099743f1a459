"""What a client of a broker learns of jobs that are nowhere but in the archive."""

import asyncio

import pytest

from bucketq import InMemoryStorage, JobFailedError, JobNotFoundError, JobStatus, Settings, connect
from bucketq.broker.serving import serving

ARCHIVES_AT_ONCE = Settings(archive_jobs_max=1, poll_interval_s=0.05)


async def archive_all(q):
    """Go on until nothing is on its way to the archive any more."""
    async with asyncio.timeout(30):
        while (ledger := (await q.read_state()).ledger).size:
            await asyncio.sleep(0.02)
            await q.enqueue("tick", max_attempts=1)
    return ledger.archived


async def test_a_client_waits_for_jobs_and_reads_results_that_only_the_archive_knows():
    async with (
        serving(InMemoryStorage(), settings=ARCHIVES_AT_ONCE) as broker,
        connect(f"grpc://{broker.address}", settings=ARCHIVES_AT_ONCE) as q,
    ):
        done, failed = [await q.enqueue("first", number, max_attempts=1) for number in range(2)]
        jobs = await q.dequeue("first", batch_size=2)
        await q.ack(jobs[0], {"n": 1})
        await q.nack(jobs[1], "boom")
        assert sum((await archive_all(q)).values()) == 2
        assert await q.result(done, timeout=30) == {"n": 1}
        with pytest.raises(JobFailedError, match="boom"):
            await q.result(failed, timeout=30)
        child = await q.enqueue("second", after=[done])
        assert (child.status, child.after) == (JobStatus.QUEUED, ())
        async with q.transaction() as t:
            following = t.enqueue("third", after=[done, child])
        assert (await q.find(following)).after == (child.id,)
        batch = await q.enqueue_batch("fourth", range(2), then=("last", b""), after=[done])
        assert await q.batch(batch.id) == (2, 2, 0)
        assert len(await q.dequeue("fourth", batch_size=9)) == 2
        with pytest.raises(JobNotFoundError, match="nobody"):
            await q.enqueue("second", after=[done, "nobody"])
