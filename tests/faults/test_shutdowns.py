"""Shutdowns: whatever is closed or stopped ends within its time, whatever the storage does."""

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest

from bucketq import App
from bucketq.app.worker import Worker
from bucketq.broker.broker import Beats, Broker
from bucketq.errors import BucketQError
from bucketq.remote.queue import RemoteQueue
from bucketq.testing.virtual_time import Process, VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage, queues_with
from tests.faults.test_deadlines import error_of

opened = queues_with(archive=False)


class Mute(FaultyStorage):
    """Does not answer while it is mute, or loses one answer to a read, or to a write."""

    is_mute = loses_read = loses_write = False

    async def _reach(self):
        if self.is_mute:
            await asyncio.Event().wait()
        await super()._reach()

    async def read_if_changed(self, etag):
        lost, self.loses_read = self.loses_read, False
        return await (asyncio.sleep(10.0, None) if lost else super().read_if_changed(etag))

    async def write(self, content, if_match=None):
        lost, self.loses_write = self.loses_write, False
        return await (asyncio.sleep(10.0, None) if lost else super().write(content, if_match))


def now_s():
    return asyncio.get_running_loop().time()


async def until(condition):
    async with asyncio.timeout(1000):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def ends_within(limit_s):
    began_s = now_s()
    yield
    assert now_s() - began_s <= limit_s


@virtual_time
async def test_leaving_a_queue_waits_for_nothing_that_no_caller_waits_for(caplog):
    storage = Mute()
    async with opened(storage) as other:
        q = await opened(storage).__aenter__()
        await q.enqueue("mail")
        [job] = await q.dequeue()
        storage.is_mute = True
        await q.heartbeat(job)
        gone = asyncio.create_task(q.dequeue())
        await asyncio.sleep(0.1)
        gone.cancel()
        async with ends_within(10):
            await q.__aexit__(None, None, None)
        assert "closed before all was written" in caplog.text
        storage.is_mute = False
        await other.ack(job)


@virtual_time
async def test_leaving_a_queue_lets_callers_have_their_time():
    storage = Mute()
    q = await opened(storage, retry_for_s=20).__aenter__()
    await q.enqueue("mail")
    storage.is_mute = True
    call = asyncio.create_task(q.enqueue("mail"))
    await asyncio.sleep(0.1)
    async with ends_within(25):
        await q.__aexit__(None, None, None)
    assert isinstance(call.exception(), BucketQError)


@virtual_time
async def test_a_worker_ends_within_its_grace_and_ten_seconds(caplog):
    storage = Mute()
    app = App("memory://")
    begun = asyncio.Event()

    @app.job
    async def patient():
        begun.set()
        await asyncio.sleep(1000)

    @app.job
    async def quick():
        pass

    with app.connected_by(lambda: opened(storage)):
        worker = Worker(app, grace_s=2)
        working = asyncio.create_task(worker.serve())
        queue = await app.opened()
        await queue.enqueue("patient")
        await begun.wait()
        storage.is_mute = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await queue.enqueue("quick")
        async with ends_within(2 + 10):
            worker.stop()
            await working
    assert "could not be settled" in caplog.text


@virtual_time
async def test_a_worker_that_waits_for_its_storage_to_be_proven_ends_when_it_is_told():
    class Unproven(Mute):
        async def prove(self):
            await asyncio.Event().wait()

    app = App("memory://")
    app.job(name="mail")(lambda: None)
    with app.connected_by(lambda: opened(Unproven())):
        worker = Worker(app, grace_s=2)
        working = asyncio.create_task(worker.serve())
        await asyncio.sleep(1)
        async with ends_within(10):
            worker.stop()
            await working


def brokered(storage, name, beats):
    broker = Broker(storage, beats=beats, clock=VirtualClock())
    broker.address = f"{name}:1"
    return broker, asyncio.create_task(broker.run())


@pytest.mark.parametrize("leads", [True, False])
@virtual_time
async def test_a_broker_that_is_stopped_ends_whatever_the_storage_does(leads, caplog):
    storage = Mute()
    storage.is_mute = not leads
    broker, running = brokered(storage, "a", Beats())
    await (until(lambda: broker.is_leading) if leads else asyncio.sleep(5))
    storage.is_mute = True
    call = None
    if leads:
        call = asyncio.create_task(broker.lead(lambda queue: queue.enqueue("mail")))
        await asyncio.sleep(4)
    async with ends_within(15):
        broker.stop()
        await running
    if call is not None:
        assert isinstance(await asyncio.gather(call, return_exceptions=True), list)
        assert "another one takes over" in caplog.text


class Way:
    """To a broker that does not answer."""

    async def batch(self, *batch):
        await asyncio.Event().wait()

    async def close(self):
        pass


@virtual_time
async def test_a_client_of_silent_brokers_ends_in_time():
    client = RemoteQueue(Way, ["a:1"], clock=VirtualClock())
    await client.__aenter__()
    calls = []
    for _ in range(40):
        calls.append(asyncio.create_task(error_of(client.enqueue("mail"))))
        await asyncio.sleep(1)
    async with ends_within(32):
        await client.__aexit__(None, None, None)
    for error, took_s in await asyncio.gather(*calls):
        assert took_s == pytest.approx(30, abs=0.6)
        assert f"Gave up after {took_s:.1f} s" in str(error)


@pytest.mark.parametrize("beats", [Beats(interval_s=0.5, timeout_s=2.0), Beats()])
@virtual_time
async def test_one_unanswered_read_of_a_standby_does_not_delay_a_failover(beats):
    took = [await failover_s(beats, lost_after_s / 2) for lost_after_s in range(int(beats.timeout_s) * 2)]
    assert max(took) <= beats.timeout_s + 1.6


async def failover_s(beats, lost_after_s):
    """How long it takes until another broker leads, where an answer to one of its reads is lost."""
    storage = Mute()
    process = Process("leader")
    leader = Broker(storage, beats=beats, clock=VirtualClock())
    leader.address = "a:1"
    leading = process.start(leader.run())
    await until(lambda: leader.is_leading)
    standby, waiting = brokered(storage, "b", beats)
    await asyncio.sleep(5)
    process.kill()
    died_s = now_s()
    await asyncio.sleep(lost_after_s)
    storage.loses_read = True
    await until(lambda: standby.is_leading)
    took_s = now_s() - died_s
    standby.stop()
    await waiting
    process.bury()
    leader.stop()
    await leading
    return took_s


@pytest.mark.parametrize("beats", [Beats(interval_s=0.5, timeout_s=2.0), Beats()])
@virtual_time
async def test_one_unanswered_heartbeat_of_a_leader_costs_no_lead(beats):
    storage = Mute()
    broker, running = brokered(storage, "a", beats)
    await until(lambda: broker.is_leading)
    await asyncio.sleep(1)
    storage.loses_write = True
    await asyncio.sleep(30)
    assert broker.terms == 1
    assert not storage.loses_write
    broker.stop()
    await running


@virtual_time
async def test_one_unanswered_heartbeat_of_a_worker_costs_no_claim():
    storage = Mute()
    async with opened(storage, stale_after_s=12) as q, opened(storage, stale_after_s=12) as rival:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        other = asyncio.create_task(rival.dequeue(wait=40))
        storage.loses_write = True
        for _ in range(10):
            await q.heartbeat_many([job])
            await asyncio.sleep(4)
        assert await other == []
        await q.ack(job)


@virtual_time
async def test_leaving_the_end_of_a_term_leaves_no_error_behind():
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    storage = Mute()
    broker, running = brokered(storage, "a", Beats())
    await until(lambda: broker.is_leading)
    begun = asyncio.Event()

    async def work(queue):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise BucketQError("the queue was closed meanwhile")

    call = asyncio.create_task(broker.lead(work))
    await begun.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    broker.stop()
    await running
    del call
    gc.collect()
    await asyncio.sleep(1)
    assert errors == []
