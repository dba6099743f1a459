"""What is told of a whole queue, by what queue.json says of its segments too."""

import asyncio

import msgspec

from bucketq import DirectQueue, Settings
from bucketq.job import Job
from bucketq.operation import Adopt
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.told import QueueTold
from tests.faults.faulty import FaultyStorage


@virtual_time
async def test_a_queue_is_told_with_what_stands_in_its_segments():
    clock = VirtualClock()
    q = DirectQueue(FaultyStorage(), Settings(hot_jobs_max=4, segment_jobs_max=10), clock=clock)
    began = clock.now()
    await q.enqueue_many("slow", range(40), 9)
    await asyncio.sleep(60)
    await q.enqueue("quick")
    await q.enqueue("quick", delay=600)
    assert await q.dequeue("quick")
    await q.pause("idle")
    told = msgspec.json.decode(msgspec.json.encode(QueueTold.of_state(await q.read_file())))
    assert (told["queued"], told["inProgress"], told["scheduled"], told["total"]) == (40, 1, 1, 42)
    assert told["types"] == [
        {"type": "idle", "isPaused": True},
        {"type": "quick", "inProgress": 1, "scheduled": 1},
        {"type": "slow", "queued": 40},
    ]
    assert told["segments"] > 2
    assert told["queueBytes"] > 500
    oldest = msgspec.convert(told["oldestAt"], type(began))
    assert abs((oldest - began).total_seconds()) < 0.001, "ids tell milliseconds"
    assert "leader" not in told
    assert "isPaused" not in told


@virtual_time
async def test_ids_of_another_kind_tell_no_time():
    clock = VirtualClock()
    q = DirectQueue(FaultyStorage(), Settings(hot_jobs_max=4, segment_jobs_max=10), clock=clock)
    began = clock.now()
    ids = [f"{number:02x}1fe3b5-d344-4a06-9c99-d2955c30ed8a" for number in range(40)]
    jobs = tuple(Job(id=one, entrypoint="mail", payload=b"1", created_at=began) for one in ids)
    await q.apply(Adopt("from jqueue", 1, jobs, began))
    await q.enqueue("mail")
    state = await q.read_file()
    assert len(state.backlog) > 2
    told = QueueTold.of_state(state)
    assert (told.queued, told.oldest_at) == (41, began)
