"""A broker in this event loop, and a client that speaks HTTP with it by a real socket."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from bucketq import InMemoryStorage
from bucketq.broker.broker import Broker
from bucketq.broker.serving import serving


async def leading(broker: Broker) -> Broker:
    while not broker.is_leading:
        await asyncio.sleep(0.005)
    return broker


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with serving(InMemoryStorage()) as broker:
        yield await leading(broker)


@pytest.fixture
async def http(broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://{broker.http}", timeout=30) as client:
        yield client
