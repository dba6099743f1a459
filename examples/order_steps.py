"""Steps of an order, one job each: a transaction ends a step and begins the next in one commit.

    python examples/order_steps.py

Between the ack of one step and the enqueue of the next there is no moment in which a crash
could lose the order or do a step twice over.
"""

import asyncio

from bucketq import BrokerQueue, ClaimLostError, InMemoryStorage, Job, Queue

NEXT = {"charge": "pack", "pack": "ship", "ship": None}


async def do_step(q: Queue, job: Job) -> None:
    """Do one step, and hand the order on."""
    order = job.json()
    print(f"{job.entrypoint} order {order['number']}")
    async with q.transaction() as t:
        t.ack(job)
        if step := NEXT[job.entrypoint]:
            t.enqueue(step, {**order, "done": [*order["done"], job.entrypoint]})


async def work_until_empty(q: Queue) -> None:
    """Take whatever step comes next."""
    while jobs := await q.dequeue():
        await do_step(q, jobs[0])


async def refuse_a_late_worker(q: Queue) -> None:
    """A step that was given to another worker cannot be handed on by the first one too."""
    await q.enqueue("charge", {"number": 3, "done": []})
    [late] = await q.dequeue()
    await q.nack(late, error="looked dead")
    [current] = await q.dequeue()
    try:
        await do_step(q, late)
    except ClaimLostError:
        print("refused as a whole: the claim is lost, so nothing was enqueued")
    await do_step(q, current)
    state = await q.read_state()
    print(f"order 3 is in the queue {len(state.jobs)} time(s), as {state.jobs[0].entrypoint!r}")


async def main() -> None:
    async with BrokerQueue(InMemoryStorage()) as q:
        for number in (1, 2):
            await q.enqueue("charge", {"number": number, "done": []})
        await work_until_empty(q)
        await refuse_a_late_worker(q)


if __name__ == "__main__":
    asyncio.run(main())
