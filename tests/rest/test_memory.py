"""What a broker answers while its account of held bytes is full."""

import asyncio
from contextlib import AsyncExitStack

import httpx

from bucketq import InMemoryStorage
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Broker
from bucketq.broker.door import Door
from bucketq.broker.holdings import Holdings
from bucketq.broker.http_shell import HttpShell
from bucketq.broker.metrics import Metrics
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from tests.rest.conftest import leading


async def test_a_query_that_finds_no_room_is_answered_once_there_is_some():
    allowance = Allowance(held_bytes_max=1024 * 1024)
    holdings, broker = Holdings(allowance), Broker(InMemoryStorage())
    service = Service(broker)
    shell = HttpShell(service, Rpc(service), Door(), allowance, Metrics(broker), (), holdings)
    running = asyncio.create_task(broker.run())
    await leading(broker)
    transport = httpx.ASGITransport(shell.app, raise_app_exceptions=True)
    async with httpx.AsyncClient(base_url="http://127.0.0.1", transport=transport, timeout=30) as http:
        jobs = {"type": "a", "payloads": ["x" * 20_000] * 5}
        assert (await http.post("/v1/jobs/batch", json=jobs)).status_code < 300
        for path in ("/v1/jobs", "/state"):
            holdings.count("other", allowance.held_bytes_max)
            asking = asyncio.create_task(http.get(path))
            while not holdings._waiting:
                assert not asking.done(), asking.result().text
                await asyncio.sleep(0)
            holdings.count("other", -allowance.held_bytes_max)
            answer = await asking
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["jobs"]) == 5
    assert holdings.bytes_held == 0
    broker.stop()
    await running


async def test_few_states_are_decoded_at_a_time(broker, http):
    asking = []

    async def look(queue):
        async with AsyncExitStack() as stack:
            while not queue.looking.locked():
                await stack.enter_async_context(queue.looking)
            asking.append(asyncio.create_task(http.get("/state")))
            for _ in range(20):
                await http.get("/v1/stats")
            assert not asking[0].done()

    await broker.lead(look)
    assert (await asking[0]).status_code == 200
