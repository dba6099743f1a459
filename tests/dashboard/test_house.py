"""A house refuses what its visitor may not do, whatever their page shows."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.responses import Response

from bucketq import DirectQueue, ForbiddenError, InMemoryStorage, Settings, UnauthenticatedError
from bucketq.broker.access import Role
from bucketq.broker.door import Door
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from bucketq.dashboard.gate import Gate
from bucketq.dashboard.house import BrokerHouse, RemoteHouse, StorageHouse
from tests.dashboard.browser import eventually


class Known:
    """Some tokens: their secrets by role, and the door that knows them."""

    def __init__(self):
        made = {role: new_token(role.value, [role.value]) for role in Role}
        self.secrets = {role: secret for role, (secret, _) in made.items()}
        self.tokens = Tokens([token for _, token in made.values()])


@asynccontextmanager
async def before_a_storage(storage, known):
    house = StorageHouse(storage, Settings(), Door(known.tokens), needs_token=True)
    yield house
    await house.close()


@asynccontextmanager
async def on_a_broker(storage, known):
    houses = []

    @asynccontextmanager
    async def pages(inside):
        houses.append(BrokerHouse(inside))
        yield None
        await houses[0].close()

    async with serving(storage, host="127.0.0.1", tokens=known.tokens, pages=pages) as broker:

        async def leads():
            return broker.is_leading

        await eventually(leads)
        yield houses[0]


@pytest.fixture(params=[before_a_storage, on_a_broker], ids=["storage", "broker"])
async def house(request):
    storage, known = InMemoryStorage(), Known()
    async with request.param(storage, known) as house:
        yield house, known, DirectQueue(storage)


async def test_a_viewer_looks_and_changes_nothing(house):
    house, known, queue = house
    job = await queue.enqueue("mail")
    visitor = await house.admit(known.secrets[Role.VIEWER], "127.0.0.1")
    async with visitor.leaving:
        assert [one.id async for one in visitor.queue.jobs()] == [job.id]
        for deed in (
            visitor.queue.pause(),
            visitor.queue.cancel(job.id),
            visitor.queue.enqueue("mail"),
            visitor.queue.unschedule("nightly"),
            visitor.queue.limit("mail", max_running=1),
        ):
            with pytest.raises(ForbiddenError):
                await deed
    assert (await queue.stats()).queued == 1
    assert not (await queue.limits()).is_paused


async def test_a_producer_cancels_and_does_not_pause(house):
    house, known, queue = house
    job = await queue.enqueue("mail")
    visitor = await house.admit(known.secrets[Role.PRODUCER], "127.0.0.1")
    async with visitor.leaving:
        await visitor.queue.cancel(job.id)
        with pytest.raises(ForbiddenError):
            await visitor.queue.pause()
    assert (await queue.stats()).queued == 0


async def test_an_admin_does_everything(house):
    house, known, queue = house
    visitor = await house.admit(known.secrets[Role.ADMIN], "127.0.0.1")
    async with visitor.leaving:
        await visitor.queue.pause("mail")
    assert "mail" in (await queue.limits()).paused


async def test_nobody_comes_in_without_a_token(house):
    house, _, _ = house
    for token in (None, "", "bq_wrong"):
        with pytest.raises(UnauthenticatedError):
            await house.admit(token, "127.0.0.1")


async def test_before_brokers_nobody_comes_in_by_the_token_of_whoever_started_the_dashboard(monkeypatch):
    known = Known()
    monkeypatch.setenv("BUCKETQ_TOKEN", known.secrets[Role.ADMIN])
    async with serving(InMemoryStorage(), host="127.0.0.1", tokens=known.tokens) as broker:
        house = RemoteHouse(f"grpc://{broker.address}", Settings(), needs_token=True)
        for token in (None, "", " "):
            with pytest.raises(UnauthenticatedError):
                await house.admit(token, "10.0.0.9")
        visitor = await house.admit(known.secrets[Role.VIEWER], "10.0.0.9")
        async with visitor.leaving:
            assert visitor.name == "viewer"
        await house.close()


async def test_before_brokers_those_who_come_at_once_without_tokens_share_one_connection():
    async with serving(InMemoryStorage(), host="127.0.0.1") as broker:
        house = RemoteHouse(f"grpc://{broker.address}", Settings(), needs_token=False)
        gate = Gate(Response("a page"), house, is_encrypted=False)
        way = httpx.ASGITransport(gate)
        async with httpx.AsyncClient(transport=way, base_url="http://127.0.0.1") as browser:
            answers = await asyncio.gather(*(browser.get("/dashboard/") for _ in range(5)))
        assert {answer.text for answer in answers} == {"a page"}
        assert len(house._watches) == 1
        await gate.close()
        assert len(house._watches) == 0
        await house.close()
