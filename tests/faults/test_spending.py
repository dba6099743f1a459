"""What a queue asks of its storage is counted, by kind, and has a price."""

import asyncio

import pytest
from faulty import FaultyStorage

from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, Settings, ThrottledStorage
from bucketq.account import DELETE, LIST, READ, WRITE, Account
from bucketq.prices import MONTH_S, S3, Requests
from bucketq.storage.counted import counted
from bucketq.testing.virtual_time import VirtualClock, run

PRICED = {"price_per_1000_reads": 0.0004, "price_per_1000_writes": 0.005, "price_per_1000_lists": 0.005}


class TwoMethods:
    """All that a storage has to have."""

    def __init__(self):
        self._inner = InMemoryStorage()

    async def read(self):
        return await self._inner.read()

    async def write(self, content, if_match=None):
        return await self._inner.write(content, if_match)


def account(**more):
    return Account(S3, VirtualClock(), **more)


def test_every_request_of_a_queue_is_counted_by_kind():
    async def main():
        storage = FaultyStorage()
        settings = Settings(payload_inline_max=10, hot_jobs_max=40, segment_jobs_max=40, archive_jobs_max=5)
        async with BrokerQueue(storage, settings=settings, clock=VirtualClock()) as q:
            for number in range(200):
                await q.enqueue("mail", number)
            await q.enqueue("large", "x" * 100)
            while jobs := await q.dequeue("mail", batch_size=50):
                for job in jobs:
                    await q.ack(job)
            await asyncio.sleep(60)
            await q.collect_garbage()
            found = q.spending.requests
            assert q.storage is storage
        made = Requests(
            storage.reads,
            storage.writes,
            storage.object_reads,
            storage.creates,
            storage.lists,
            storage.deletes,
        )
        assert min(found) > 0, "each kind was needed"
        # What closing has cost came after.
        assert all(one <= other for one, other in zip(found, made, strict=True))
        assert q.spending.requests == made
        assert q.spending.dollars == 0, "memory is free"

    run(main())


@pytest.mark.parametrize("open_queue", [BrokerQueue, DirectQueue])
@pytest.mark.parametrize(
    "open_storage", [TwoMethods, InMemoryStorage, lambda: ThrottledStorage(InMemoryStorage())]
)
def test_on_every_storage_and_by_every_queue(open_queue, open_storage):
    async def main():
        async with open_queue(open_storage(), settings=Settings(**PRICED)) as q:
            await q.enqueue("mail")
            await q.enqueue("mail")
            spending = q.spending
            assert (spending.requests.reads, spending.requests.writes) == (1, 2)
            assert spending.dollars == pytest.approx((0.0004 + 2 * 0.005) / 1000)

    asyncio.run(main())


def test_a_refused_request_is_paid_for_too():
    async def main():
        storage = FaultyStorage()
        async with BrokerQueue(storage, clock=VirtualClock()) as q:
            storage.faults.extend(["slow down", "conflict", "lost answer"])
            await q.enqueue("mail")
            assert q.spending.requests.writes == storage.writes == 3
            assert q.spending.requests.reads == storage.reads

    run(main())


def test_a_long_list_is_several_requests():
    async def main():
        storage = FaultyStorage()
        for number in range(2500):
            await storage.inner.objects.create(f"payloads/{number}", b"")
        one = account()
        assert len([info async for info in counted(storage, one).objects.list("payloads/")]) == 2500
        assert one.requests.lists == 3

    run(main())


def test_the_pace_is_that_of_the_last_minutes():
    async def main():
        one = account()
        for _ in range(3600):
            one.charge(WRITE)
            await asyncio.sleep(1)
        assert one.spending().per_s.writes == pytest.approx(1, rel=0.05)
        assert one.spending().dollars_per_month == pytest.approx(S3.per_month(Requests(writes=1)), rel=0.05)
        for _ in range(600):
            one.charge(READ)
            await asyncio.sleep(1)
        assert one.spending().per_s == (pytest.approx(1, rel=0.05), 0, 0, 0, 0, 0)
        await asyncio.sleep(400)
        assert one.spending().dollars_per_month == 0
        assert one.spending().dollars == pytest.approx(3600 * 5e-6 + 600 * 4e-7)

    run(main())


def test_the_first_moments_are_not_taken_for_a_month():
    async def main():
        one = account()
        for kind in (READ, WRITE, LIST, DELETE):
            one.charge(kind)
        assert one.spending().dollars_per_month == pytest.approx((4e-7 + 5e-6 + 5e-6) / 60 * MONTH_S)

    run(main())
