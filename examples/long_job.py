"""A job that takes long: heartbeats keep it, and a worker that loses it stops at once.

    python examples/long_job.py

The stale timeout here is a second or two, to see something happen. Real ones are minutes.
"""

import asyncio
from datetime import timedelta

from bucketq import BrokerQueue, ClaimLostError, HeartbeatManager, InMemoryStorage, JobNotFoundError, Queue

STALE = timedelta(seconds=1.5)
BEAT = STALE / 5


async def transcode(name: str, chunks: int) -> None:
    """The work, in small steps, so that a cancelled job ends soon."""
    for _ in range(chunks):
        await asyncio.sleep(0.1)
    print(f"{name}: transcoded {chunks} chunks")


async def work(q: Queue, name: str, chunks: int) -> None:
    """Do one job, and find out in time if it is not ours any more."""
    [job] = await q.dequeue("transcode", wait=10)
    try:
        async with HeartbeatManager(q, job, interval=BEAT):
            await transcode(name, chunks)
        await q.ack(job)
        print(f"{name}: done, attempt {job.attempts}")
    except ClaimLostError:
        # Raised inside the block by the first heartbeat that is refused, or by the ack.
        # Another worker has the job: leave no result behind, and take the next job.
        print(f"{name}: the job was taken away, stopped")
    except JobNotFoundError:
        print(f"{name}: somebody else has finished the job")


async def keep_a_long_job(q: Queue) -> None:
    """Longer than the stale timeout, and still ours: the heartbeats see to that."""
    await q.enqueue("transcode", {"film": "long.mov"})
    await work(q, "steady worker", chunks=20)


async def lose_a_job(q: Queue) -> None:
    """An operator takes the job away, as the queue itself does when heartbeats stay out."""
    await q.enqueue("transcode", {"film": "cursed.mov"})
    await asyncio.gather(work(q, "first worker", chunks=1000), take_away(q))
    await work(q, "second worker", chunks=3)


async def take_away(q: Queue) -> None:
    """Requeue whatever runs, once something does."""
    while await q.requeue_stale(timeout=timedelta(0)) == 0:  # noqa: ASYNC110 (nothing here could tell us)
        await asyncio.sleep(0.1)


async def main() -> None:
    async with BrokerQueue(InMemoryStorage(), stale_timeout=STALE) as q:
        await keep_a_long_job(q)
        await lose_a_job(q)
        stats = (await q.read_state()).stats
        print(f"completed {stats.completed_total} of {stats.enqueued_total}")


if __name__ == "__main__":
    asyncio.run(main())
