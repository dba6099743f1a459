"""`top` by way of a broker: all of it works, as far as one's role goes and while one is there."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from bucketq import DirectQueue, InMemoryStorage, Settings, connect
from bucketq.broker.access import Role
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from tests.top.watched import seen, until_seen, until_told, watching


@asynccontextmanager
async def leading(storage, **options):
    async with serving(storage, **options) as broker:
        while not broker.is_leading:
            await asyncio.sleep(0.005)
        yield broker


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_it_works_by_way_of_a_broker(scheme):
    async with leading(InMemoryStorage()) as broker:
        address = broker.address if scheme == "grpc" else broker.http
        async with connect(f"{scheme}://{address}") as queue:
            await queue.enqueue("mail")
            async with watching(queue, size=(100, 24)) as pilot:
                await until_seen(pilot, "queued 1 ")
                assert f"led by {broker.address}" in seen(pilot)
                await pilot.press("p", "y")
                await until_seen(pilot, "paused: mail")
            assert (await queue.limits()).paused == ("mail",)


async def test_a_viewer_sees_all_and_is_told_what_it_may_not():
    secret, viewer = new_token("grafana", [Role.VIEWER])
    master, admin = new_token("ops", [Role.ADMIN])
    async with leading(InMemoryStorage(), tokens=Tokens([viewer, admin])) as broker:
        async with connect(f"grpc://{broker.address}", token=master) as queue:
            queue.worker = "web-1:4711"
            await queue.enqueue("mail")
            await queue.dequeue("mail")
        async with connect(f"grpc://{broker.address}", token=secret) as queue, watching(queue) as pilot:
            await until_seen(pilot, "web-1:4711")
            await pilot.press("P", "y")
            await until_told(pilot, "admin")
            assert "PAUSED" not in seen(pilot)


async def test_a_broker_that_went_away_is_missed_and_found_again():
    storage, first = InMemoryStorage(), AsyncExitStack()
    broker = await first.enter_async_context(leading(storage))
    port = int(broker.address.rpartition(":")[2])
    impatient = Settings(retry_for_s=0.2)
    async with connect(f"grpc://{broker.address}", settings=impatient) as queue:
        await queue.enqueue("mail")
        async with watching(queue, every_s=0.1) as pilot:
            await until_told(pilot, "queued 1 ")
            await first.aclose()
            await until_told(pilot, "no broker could be reached")
            async with leading(storage, grpc_port=port):
                await DirectQueue(storage).enqueue("mail")
                await until_told(pilot, "queued 2 ")
                assert "no broker" not in seen(pilot)
