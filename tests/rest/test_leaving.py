"""Callers who go away: what was claimed for them goes back at once."""

import asyncio
import json

import pytest


async def send(broker, path, body):
    """Send a request by a socket of one's own; return its ends."""
    host, port = broker.http.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


async def until(condition):
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.01)


def waiting(broker):
    return len(broker._term.queue._group._waiters)


@pytest.mark.parametrize("path", ["/v1/jobs/claim", "/v1/claims"])
async def test_one_who_waits_and_goes_away_gets_no_job(http, broker, path):
    _, writer = await send(broker, path, {"workerId": "gone", "wait": 60})
    await until(lambda: answered(waiting(broker) == 1))
    writer.close()
    await until(lambda: answered(waiting(broker) == 0))
    await http.post("/v1/jobs", json={"payload": 1})
    got = (await http.post("/v1/jobs/claim", json={"workerId": "here"})).json()
    assert (got["payload"], got["attempts"]) == (1, 1)


async def test_what_is_claimed_in_the_moment_of_leaving_goes_back(http, broker):
    for _ in range(30):
        _, writer = await send(broker, "/v1/jobs/claim", {"workerId": "gone", "wait": 60})
        await until(lambda: answered(waiting(broker) == 1))
        submitting = asyncio.create_task(http.post("/v1/jobs", json={"payload": 1}))
        writer.transport.abort()
        await submitting
        got = (await http.post("/v1/jobs/claim", json={"workerId": "here", "wait": 5})).json()
        assert got.get("payload") == 1, "it is nobody's but ours"
        await http.post(f"/v1/jobs/{got['jobId']}/complete", json={"workerId": "here"})


async def test_one_who_waits_for_a_result_and_goes_away(http, broker):
    job_id = (await http.post("/v1/jobs", json={})).json()["jobId"]
    host, port = broker.http.rsplit(":", 1)
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /v1/jobs/{job_id}/result?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    watchers = broker._term.queue._group._watchers
    await until(lambda: answered(len(watchers) == 1))
    writer.close()
    await until(lambda: answered(len(watchers) == 0))


async def answered(value):
    return value
