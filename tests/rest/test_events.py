"""Server-sent events: the numbers as they change, at no cost to the storage."""

import asyncio
import json

import httpx
import pytest

from bucketq import InMemoryStorage
from bucketq.broker.broker import Beats
from bucketq.broker.serving import serving
from tests.rest.conftest import leading


class Counting(InMemoryStorage):
    """Counts what is asked of it."""

    requests = 0

    async def read(self):
        self.requests += 1
        return await super().read()

    async def write(self, content, if_match=None):
        self.requests += 1
        return await super().write(content, if_match)

    async def read_if_changed(self, etag):
        self.requests += 1
        return await super().read_if_changed(etag)


async def events_of(answer):
    name = None
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_the_numbers_are_told_when_they_change(http, broker):
    async with http.stream("GET", "/v1/events", params={"interval": 0.1}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer)
        assert await anext(events) == ("leader", {"isLeading": True, "address": broker.http})
        name, stats = await anext(events)
        assert (name, stats["total"]) == ("stats", 0)
        await http.post("/v1/jobs", json={})
        name, stats = await anext(events)
        assert (name, stats["total"], stats["unclaimed"]) == ("stats", 1, 1)
        await http.post("/v1/jobs/claim", json={"workerId": "w"})
        name, stats = await anext(events)
        assert (stats["unclaimed"], stats["inProgress"]) == (0, 1)
        assert stats == (await http.get("/v1/stats")).json()


async def test_the_end_of_a_term_is_told_and_ends_the_stream():
    async with serving(InMemoryStorage()) as broker, httpx.AsyncClient(timeout=20) as http:
        url = f"http://{(await leading(broker)).http}/v1/events"
        async with http.stream("GET", url, params={"interval": 60}) as answer:
            events = events_of(answer)
            assert [name for name, _ in (await anext(events), await anext(events))] == ["leader", "stats"]
            broker.stop()
            name, told = await anext(events)
            assert (name, told["isLeading"]) == ("leader", False)
            assert [one async for one in events] == [], "the stream is over"


async def test_watching_costs_the_storage_nothing():
    storage = Counting()
    # The leader's own heartbeat is the only other thing that could ask.
    slow = Beats(interval_s=100, timeout_s=1000)
    async with serving(storage, beats=slow) as broker, httpx.AsyncClient(timeout=20) as http:
        url = f"http://{(await leading(broker)).http}/v1/events"
        async with http.stream("GET", url, params={"interval": 0.1}) as answer:
            events = events_of(answer)
            await anext(events)
            await anext(events)
            before = storage.requests
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(events)
            assert storage.requests == before, "ten looks, and none at the storage"


async def test_what_makes_no_sense_is_refused(http):
    for interval in ("0", "61", "x", "nan"):
        answer = await http.get("/v1/events", params={"interval": interval})
        assert (answer.status_code, answer.json()["_tag"]) == (400, "BrokerProtocolError")


async def test_the_head_alone_has_an_end(http):
    answer = await http.head("/v1/events")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_a_line_that_is_silent_is_kept_open(http, monkeypatch):
    monkeypatch.setattr("bucketq.broker.events._SILENCE_MAX_S", 0.2)
    async with http.stream("GET", "/v1/events", params={"interval": 0.1}) as answer:
        async for line in answer.aiter_lines():
            if line == ":":
                break
        else:
            pytest.fail("it has ended")
