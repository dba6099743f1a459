"""A client sends its batch again when no answer comes in time: the work begun for it goes on."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq import JobStatus, Settings
from bucketq.broker.access import ANYBODY
from bucketq.broker.broker import Broker
from bucketq.broker.service import Service
from bucketq.broker.under_way import UnderWay
from bucketq.operation import Enqueue, Refresh
from bucketq.remote.brokers import UnreachableError
from bucketq.remote.queue import RemoteQueue
from bucketq.retry import GiveUp
from bucketq.testing.virtual_time import VirtualClock, run, virtual_time
from tests.faults.faulty import FaultyStorage

# A segment has 20 jobs, and two segments fit into the cache.
SMALL = Settings(
    hot_jobs_max=40, hot_bytes_max=16_000, segment_jobs_max=20, segment_cache_bytes=14_000, archive=False
)
PER_SEGMENT = 20


class Way:
    """The way to a broker in this process. A client that gives up cancels its call."""

    def __init__(self, service):
        self._service = service
        self.sent = 0

    async def batch(self, address, *batch):
        self.sent += 1
        return await self._service.batch(*batch, ANYBODY)

    async def create_object(self, address, name, content):
        await self._service.create_object(name, content)

    async def list_jobs(self, address, *chosen):
        return await self._service.list_jobs(*chosen, ANYBODY)

    async def close(self):
        pass


@asynccontextmanager
async def client_of_a_broker(storage):
    clock = VirtualClock()
    broker = Broker(storage, SMALL, clock=clock)
    broker.address = "b:1"
    running = asyncio.create_task(broker.run())
    way = Way(Service(broker))
    async with RemoteQueue(lambda: way, ["b:1"], settings=SMALL, clock=clock) as client:
        yield client, way
    broker.stop()
    await running


@virtual_time
async def test_a_batch_that_takes_longer_than_its_client_waits_is_answered():
    storage = FaultyStorage()
    async with client_of_a_broker(storage) as (client, way):
        ids = [*await client.enqueue_many("parent", ["x" * 100] * PER_SEGMENT * 50)]
        storage.object_latency_s, sent = 0.2, way.sent
        child = await client.enqueue("child", after=ids[::PER_SEGMENT])
        assert way.sent > sent + 1, "its segments cannot be read in the time that a client waits"
        assert (await client.find(child.id)).after


@virtual_time
async def test_a_dequeue_that_sorts_many_segments_does_not_hold_up_others():
    storage = FaultyStorage()
    async with client_of_a_broker(storage) as (client, _):
        for number in range(20):
            # By their time they are in another order than by their priority.
            late = ((n % 5, 600 + n * 7 % 13) for n in range(60))
            await asyncio.gather(
                *(
                    client.enqueue(f"e{number}", "x" * 100, priority=priority, delay=delay)
                    for priority, delay in late
                )
            )
        loop = asyncio.get_running_loop()
        await asyncio.sleep(590 - loop.time())
        await client.enqueue("other", priority=-1)
        [other] = await client.dequeue("other")
        await asyncio.sleep(620 - loop.time())
        storage.latency_s, storage.object_latency_s = 0.1, 0.5
        began_s = loop.time()

        async def taken_s(call):
            await call
            return loop.time() - began_s

        acked_s, dequeued_s = await asyncio.gather(taken_s(client.ack(other)), taken_s(client.dequeue()))
        assert acked_s < dequeued_s
        assert acked_s < 5


async def wait_long():
    await asyncio.sleep(1000)


def test_work_without_a_caller_is_bounded():
    @given(st.lists(st.integers(0, 20_000_000), max_size=40))
    def check(sizes):
        async def main():
            under_way = UnderWay()
            for key, size in enumerate(sizes):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await under_way.join(key, size, wait_long)
            kept = sizes[-len(under_way) :] if len(under_way) else []
            assert sum(kept) <= 64 * 1024 * 1024
            await asyncio.sleep(11)
            assert len(under_way) == 0, "nobody has sent them again"

        run(main())

    check()


@virtual_time
async def test_work_with_a_caller_goes_on_and_is_done_once():
    under_way, begun = UnderWay(), []

    async def work():
        begun.append("work")
        await asyncio.sleep(57)
        return "done"

    async def call():
        return await under_way.join("key", 1, work)

    for _ in range(12):
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                assert await call() == "done"
                break
        await asyncio.sleep(0.5)
    assert begun == ["work"]
    assert len(under_way) == 0


@virtual_time
async def test_an_error_reaches_every_caller_and_a_batch_that_comes_later_begins_again():
    under_way, begun = UnderWay(), []

    async def work():
        begun.append("work")
        await asyncio.sleep(1)
        raise ValueError("no")

    for count in (1, 2):
        outcomes = await asyncio.gather(
            *(under_way.join("key", 1, work) for _ in range(3)), return_exceptions=True
        )
        assert [str(error) for error in outcomes] == ["no"] * 3
        assert len(begun) == count


@virtual_time
async def test_a_caller_that_is_cancelled_takes_nothing_from_another_one():
    under_way = UnderWay()
    first, second = (
        asyncio.create_task(under_way.join("key", 1, lambda: asyncio.sleep(60, "done"))) for _ in "12"
    )
    await asyncio.sleep(1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.sleep(20)
    assert await second == "done"


@virtual_time
async def test_a_question_for_the_version_is_not_taken_for_the_batch_before_it():
    storage = FaultyStorage()
    async with client_of_a_broker(storage) as (client, way):
        ids = [*await client.enqueue_many("parent", ["x" * 100] * PER_SEGMENT * 50)]
        storage.object_latency_s = 2
        new = client._new_job("child", b"", 0, {"after": ids[::PER_SEGMENT]})
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await way.batch("b:1", "session", 1, 0, (Enqueue((new,)), Refresh()))
        answers = await way.batch("b:1", "session", 1, 0, (Refresh(),))
        assert len(answers.answers) == 1


@pytest.mark.parametrize("by", [lambda job: job, lambda job: job.id])
@pytest.mark.parametrize("is_finished", [False, True])
@virtual_time
async def test_a_nack_whose_answer_was_lost_returns_although_the_job_has_moved_on(is_finished, by):
    async with client_of_a_broker(FaultyStorage()) as (client, way):
        await client.enqueue("mail")
        [job] = await client.dequeue()
        send = way.batch

        async def lose(address, *batch):
            await send(address, *batch)
            way.batch = send
            lead = way._service.broker.lead
            [again] = await lead(lambda queue: queue.dequeue())
            if is_finished:
                await lead(lambda queue: queue.ack(again))
            raise UnreachableError("its answer is lost", was_sent=True)

        way.batch = lose
        told = await client.nack(by(job), "boom")
        assert (told.id, told.error, told.token) == (job.id, "boom", None)


@virtual_time
async def test_a_job_that_was_given_up_is_dead_although_the_answer_was_lost():
    async with client_of_a_broker(FaultyStorage()) as (client, way):
        await client.enqueue("mail")
        [job] = await client.dequeue()
        send = way.batch

        async def lose(address, *batch):
            await send(address, *batch)
            way.batch = send
            await way._service.broker.lead(lambda queue: queue.discard(job.id))
            raise UnreachableError("its answer is lost", was_sent=True)

        way.batch = lose
        told = await client.nack(job, "boom", retry=lambda failure: GiveUp())
        assert (told.status, told.error) == (JobStatus.DEAD, "boom")
