"""A process that works on a shared queue until it is killed, and tells what was confirmed.

    python crew.py URL direct|broker NAME

Each line on stdout is something that the queue has acknowledged: `enqueued ID` or
`acked ID`. It is written after the fact, so a kill may cut off the last one.
"""

import asyncio
import random
import sys
from contextlib import suppress

import bucketq


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def produce(q, name):
    number = 0
    while True:
        number += 1
        if random.random() < 0.3:
            for job in await q.enqueue_many(name, [number] * 3, max_attempts=1000):
                say("enqueued", job.id)
        else:
            job = await q.enqueue(name, number, priority=random.choice([0, 0, 1]), max_attempts=1000)
            say("enqueued", job.id)
        await asyncio.sleep(random.random() * 0.02)


async def work(q):
    while True:
        jobs = await q.dequeue(batch_size=random.randint(1, 4), wait=0.2)
        for job in jobs:
            with suppress(bucketq.JobNotFoundError):
                chance = random.random()
                if chance < 0.1:
                    await q.nack(job, error="try again")
                elif chance < 0.2:
                    async with q.transaction() as t:
                        t.ack(job)
                        following = t.enqueue("chained", max_attempts=1000)
                    say("acked", job.id)
                    say("enqueued", following.id)
                else:
                    await q.ack(job)
                    say("acked", job.id)


async def main(url, kind, name):
    settings = bucketq.Settings(poll_interval_s=0.1, stale_after_s=1.0, retry_for_s=60)
    storage = bucketq.open_storage(url)
    if kind == "direct":
        q = bucketq.DirectQueue(storage, settings=settings)
        await asyncio.gather(produce(q, name), work(q))
    async with bucketq.BrokerQueue(storage, settings=settings) as q:
        await asyncio.gather(produce(q, name), *(work(q) for _ in range(3)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
