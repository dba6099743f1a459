"""ThrottledStorage: who waits for how long, and what a queue does with few writes."""

import asyncio
import threading

import pytest

from bucketq import (
    BrokerQueue,
    ConfigurationError,
    InMemoryStorage,
    Settings,
    SlowDownError,
    ThrottledStorage,
)
from bucketq.storage import Bucket, Watchable
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage


def throttled(inner=None, **limits):
    return ThrottledStorage(inner or FaultyStorage(), clock=VirtualClock(), **limits)


def queue_on(storage, **settings):
    return BrokerQueue(storage, settings=Settings(**settings), clock=VirtualClock())


def now_s():
    return asyncio.get_running_loop().time()


async def timed(request, log, name):
    await request
    log.append((name, round(now_s(), 6)))


@virtual_time
async def test_callers_go_no_faster_than_allowed():
    storage, log = throttled(reads_per_s=2, burst=3), []
    await asyncio.gather(*(timed(storage.read(), log, number) for number in range(6)))
    assert log == [(0, 0), (1, 0), (2, 0), (3, 0.5), (4, 1), (5, 1.5)]
    reads = storage.stats.reads
    assert (reads.total, reads.waited_total, reads.waited_s, reads.waiting) == (6, 3, 3.0, 0)
    assert (reads.limit_per_s, reads.tokens) == (2, 0)
    await asyncio.sleep(60)
    assert storage.stats.reads.tokens == 3


@virtual_time
async def test_those_who_are_cancelled_hold_up_nobody_behind_them():
    storage, log = throttled(writes_per_s=1), []
    etag = await storage.write(b"1")
    writing = [asyncio.create_task(storage.objects.create(str(number), b"")) for number in range(60)]
    await asyncio.sleep(0.1)
    for task in writing[:-1]:
        task.cancel()
    for number in range(3):
        etag = await storage.write(b"%d" % number, etag)
        log.append(round(now_s()))
    assert writing[-1].done()
    assert log[-1] <= 6
    # They sent nothing, so they count as none of those who waited.
    writes = storage.stats.writes
    assert (writes.total, writes.waited_total) == (5, 4)


@pytest.mark.parametrize("seed", range(5))
@virtual_time
async def test_callers_go_in_the_order_in_which_they_came(seed):
    storage, log, tasks = throttled(reads_per_s=10, burst=1), [], []
    for number in range(20):
        tasks.append(asyncio.create_task(timed(storage.read(), log, number)))
        await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    assert [number for number, _ in log] == list(range(20))
    assert now_s() < 2.1


@virtual_time
async def test_all_requests_of_a_kind_share_a_limit():
    storage = throttled(reads_per_s=1, writes_per_s=1)
    await storage.write(b"x")
    await storage.objects.create("a", b"x")
    await storage.objects.delete("a")
    assert now_s() == 2, "a write, a create and a delete are three writes"
    await storage.read()
    await storage.read_if_changed("1")
    assert [info async for info in storage.objects.list()] == []
    await storage.objects.create("b", b"x")
    await storage.objects.read("b")
    assert now_s() == 5, "four reads, and a write that need not wait for them"
    assert (storage.stats.reads.total, storage.stats.writes.total) == (4, 4)


@virtual_time
async def test_without_a_limit_nobody_waits_but_all_are_counted():
    storage = throttled()
    await asyncio.gather(*(storage.read() for _ in range(1000)))
    assert now_s() == 0
    reads = storage.stats.reads
    assert (reads.total, reads.waited_total, reads.limit_per_s, reads.tokens) == (1000, 0, None, None)


@virtual_time
async def test_one_that_is_cancelled_leaves_its_place_and_takes_no_token():
    storage, log = throttled(writes_per_s=1, burst=1), []
    names = [f"object-{number}" for number in range(5)]
    tasks = [
        asyncio.create_task(timed(storage.objects.create(name, b""), log, name), name=name) for name in names
    ]
    await asyncio.sleep(0.5)
    assert storage.stats.writes.waiting == 4
    tasks[1].cancel()
    tasks[4].cancel()
    await asyncio.sleep(0)
    assert storage.stats.writes.waiting == 2
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [name for name, _ in log] == ["object-0", "object-2", "object-3"]
    assert now_s() <= 3
    assert storage.stats.writes.total == 3
    # A thousand that gave up have used nothing up.
    hopeless = [asyncio.create_task(storage.objects.create(f"no-{n}", b"")) for n in range(1000)]
    await asyncio.sleep(0.1)
    for task in hopeless:
        task.cancel()
    await asyncio.gather(*hopeless, return_exceptions=True)
    began_s = now_s()
    await storage.objects.create("after all", b"")
    assert now_s() - began_s <= 1


@virtual_time
async def test_a_commit_gets_every_second_write_and_so_do_the_objects():
    storage, log = throttled(writes_per_s=1, burst=1), []
    creates = [storage.objects.create(f"payload-{number}", b"") for number in range(20)]
    creating = [asyncio.create_task(timed(create, log, "object")) for create in creates]

    async def commit():
        etag = None
        for _ in range(5):
            etag = await storage.write(b"x", etag)
            log.append(("commit", now_s()))

    await asyncio.sleep(0.1)
    await commit()
    kinds = [kind for kind, _ in log]
    assert kinds == ["object", "commit"] * 5
    assert now_s() <= 9
    await asyncio.gather(*creating)
    assert len({moment for _, moment in log}) == 25, "never two within a second"


@virtual_time
async def test_what_the_storage_itself_refuses_is_counted():
    inner = FaultyStorage()
    storage = throttled(inner)
    inner.faults.append("slow down")
    inner.object_faults.extend(["slow down", "slow down"])
    with pytest.raises(SlowDownError):
        await storage.write(b"x")
    with pytest.raises(SlowDownError):
        await storage.objects.create("a", b"x")
    with pytest.raises(SlowDownError):
        await storage.objects.read("a")
    assert (storage.stats.writes.refused_total, storage.stats.reads.refused_total) == (2, 1)


def test_it_is_what_it_wraps():
    inner = InMemoryStorage()
    storage = ThrottledStorage(inner, writes_per_s=1)
    assert isinstance(storage, Bucket)
    assert isinstance(storage, Watchable)
    assert storage.url == "memory://"
    unwatched = ThrottledStorage(FaultyStorage())
    assert isinstance(unwatched, Bucket)
    assert not isinstance(unwatched, Watchable)


@pytest.mark.parametrize(
    "limits", [{"reads_per_s": -1}, {"writes_per_s": float("nan")}, {"writes_per_s": 1, "burst": 0}]
)
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(ConfigurationError):
        ThrottledStorage(InMemoryStorage(), **limits)


def test_threads_share_the_limit():
    inner = InMemoryStorage()
    storage = ThrottledStorage(inner, writes_per_s=100, burst=1)

    def create(thread):
        async def main():
            await asyncio.gather(*(storage.objects.create(f"{thread}-{n}", b"") for n in range(10)))

        asyncio.run(main())

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = sorted(modified_at for _, modified_at in inner.objects._objects.values())
    assert len(written) == storage.stats.writes.total == 40
    assert (written[-1] - written[0]).total_seconds() >= 0.38
    assert storage.stats.writes.waiting == 0


@virtual_time
async def test_a_hundred_callers_share_the_few_writes_there_are():
    inner = FaultyStorage()
    storage = throttled(inner, writes_per_s=1)
    async with queue_on(storage) as q:
        await asyncio.gather(*(q.enqueue("mail", number) for number in range(100)))
        assert inner.writes <= 2
        assert now_s() <= 2
        assert (await q.stats()).queued == 100


@virtual_time
async def test_a_bulk_load_does_not_keep_a_heartbeat_waiting():
    storage = throttled(writes_per_s=1)
    async with queue_on(storage, payload_inline_max=10) as q:
        job = await q.enqueue("mail")
        [job] = await q.dequeue("mail")
        loads = [asyncio.create_task(q.enqueue("large", "x" * 100)) for _ in range(100)]
        await asyncio.sleep(5)
        began_s = now_s()
        await q.ack(job)
        assert now_s() - began_s <= 4, "its own commit, and the one before, each after an object"
        await asyncio.gather(*loads)
        assert (await q.stats()).queued == 100
        assert now_s() < 220
