"""What a queue asks of its storage is counted, by kind, and has a price."""

import asyncio
import sys

import httpx
import pytest

from bucketq import (
    BrokerQueue,
    DirectQueue,
    InMemoryStorage,
    Settings,
    ThrottledStorage,
    connect,
    open_storage,
)
from bucketq.account import DELETE, LIST, READ, WRITE, Account
from bucketq.broker.serving import serving
from bucketq.budget import Budget
from bucketq.doctor import examine
from bucketq.doctor.costs import estimate
from bucketq.prices import MONTH_S, R2, S3, Requests
from bucketq.storage.counted import counted
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.wire import spending_message, spending_of
from tests.faults.faulty import FaultyStorage, TwoMethods
from tests.rest.conftest import leading

PRICED = {"price_per_1000_reads": 0.0004, "price_per_1000_writes": 0.005, "price_per_1000_lists": 0.005}


def account(**more):
    return Account(S3, VirtualClock(), **more)


@virtual_time
async def test_every_request_of_a_queue_is_counted_by_kind():
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


@pytest.mark.parametrize("open_queue", [BrokerQueue, DirectQueue])
@pytest.mark.parametrize(
    "open_storage", [TwoMethods, InMemoryStorage, lambda: ThrottledStorage(InMemoryStorage())]
)
async def test_on_every_storage_and_by_every_queue(open_queue, open_storage):
    async with open_queue(open_storage(), settings=Settings(**PRICED)) as q:
        await q.enqueue("mail")
        await q.enqueue("mail")
        spending = q.spending
        assert (spending.requests.reads, spending.requests.writes) == (1, 2)
        assert spending.dollars == pytest.approx((0.0004 + 2 * 0.005) / 1000)


@virtual_time
async def test_a_refused_request_is_paid_for_too():
    storage = FaultyStorage()
    async with BrokerQueue(storage, clock=VirtualClock()) as q:
        storage.faults.extend(["slow down", "conflict", "lost answer"])
        await q.enqueue("mail")
        assert q.spending.requests.writes == storage.writes == 3
        assert q.spending.requests.reads == storage.reads


@virtual_time
async def test_a_long_list_is_several_requests():
    storage = FaultyStorage()
    for number in range(2500):
        await storage.inner.objects.create(f"payloads/{number}", b"")
    one = account()
    assert len([info async for info in counted(storage, one).objects.list("payloads/")]) == 2500
    assert one.requests.lists == 3


@virtual_time
async def test_the_pace_is_that_of_the_last_minutes():
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


@virtual_time
async def test_the_first_moments_are_not_taken_for_a_month():
    one = account()
    for kind in (READ, WRITE, LIST, DELETE):
        one.charge(kind)
    assert one.spending().dollars_per_month == pytest.approx((4e-7 + 5e-6 + 5e-6) / 60 * MONTH_S)


@virtual_time
async def test_what_a_broker_spends_passes_the_wire():
    one = account(budget=Budget(per_s=1e-9, widest_s=10))
    for kind in (READ, WRITE, LIST, DELETE):
        one.charge(kind)
    spending = one.spending()
    assert spending.least_per_month > spending.budget_per_month
    assert spending_of(spending_message(spending)) == spending
    plain = account().spending()
    assert spending_of(spending_message(plain)) == plain


async def test_clients_and_commands_are_told_what_the_leader_spends():
    settings = Settings(**PRICED, budget_per_month=100)
    async with serving(InMemoryStorage(), settings=settings) as broker:
        await leading(broker)
        for url in (f"grpc://{broker.address}", f"http://{broker.http}"):
            async with connect(url) as q:
                await q.enqueue("mail")
                spending = await q.fetch_spending()
            assert spending.requests.writes >= 1
            assert 0 < spending.dollars_per_month < spending.budget_per_month == pytest.approx(100)
            findings = [finding async for finding in examine(url) if finding.about == "cost"]
            assert [finding.level for finding in findings] == ["ok"]
            assert "a month at this pace" in findings[0].found
        async with httpx.AsyncClient(base_url=f"http://{broker.http}") as http:
            told = (await http.get("/v1/throttle-stats")).json()["spending"]
        assert told["requests"]["writes"] == broker.spending.requests.writes
        assert (told["isHeldBack"], told["budgetPerMonth"]) == (False, pytest.approx(100))
        command = (sys.executable, "-m", "bucketq", "stats", f"grpc://{broker.address}")
        ran = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        text = (await ran.communicate())[0].decode()
        assert "cost        $" in text
        assert "the budget is $100.00" in text


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        ({}, "ok", "$4.46 a month while it leads and $1.07 while it waits"),
        ({"budget_per_month": 20}, "ok", "the budget is $20.00"),
        ({"budget_per_month": 2}, "warning", "$4.46"),
        ({"price_per_1000_writes": 0, "price_per_1000_reads": 0}, "ok", "cost nothing"),
    ],
)
def test_the_doctor_tells_what_brokers_cost_at_rest(settings, level, said):
    [finding] = estimate("s3://bucket/jobs.json", None, Settings(**settings))
    assert finding.level == level
    assert said in finding.found


def test_the_environment_may_name_the_provider(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://1a2b.r2.cloudflarestorage.com")
    prices = BrokerQueue(ThrottledStorage(open_storage("s3://bucket/jobs.json"))).spending.prices
    assert prices is R2
    given = open_storage("s3://bucket/jobs.json", endpoint_url="https://s3.amazonaws.com")
    assert BrokerQueue(given).spending.prices is S3
