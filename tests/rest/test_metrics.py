"""What a broker tells of itself: to Prometheus, and to those who look after its storage."""

import asyncio

import httpx

import bucketq
from bucketq import InMemoryStorage, ThrottledStorage
from bucketq.broker.serving import serving
from tests.rest.conftest import leading


async def scraped(http):
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def requests(way, method, outcome):
    return f'bucketq_requests_total{{method="{method}",outcome="{outcome}",transport="{way}"}}'


async def test_requests_are_counted_by_the_way_that_they_came_and_how_they_ended(broker, http):
    await http.post("/v1/jobs", json={"type": "mail"})
    await http.post("/v1/jobs/no-such/complete", json={"workerId": "w"})
    async with bucketq.connect(f"grpc://{broker.address}") as q:
        await q.enqueue("mail")
    async with bucketq.connect(f"ws://{broker.http}") as q:
        await q.enqueue("mail")
        told = await scraped(http)
    assert told[requests("http", "submitJob", "ok")] == 1
    assert told[requests("http", "completeJob", "JobNotFoundError")] == 1
    assert told[requests("grpc", "Batch", "ok")] >= 1
    assert told[requests("ws", "Batch", "ok")] >= 1
    assert told['bucketq_jobs{status="queued"}'] == 3
    assert told['bucketq_connections{transport="ws"}'] == 1
    assert told['bucketq_connections{transport="http"}'] >= 1


async def test_what_is_asked_in_vain_makes_no_new_names(http):
    for number in range(3):
        await http.post(f"/v1/rpc/Nonsense{number}")
        await http.get(f"/v1/nonsense/{number}")
    assert not [name for name in await scraped(http) if "onsense" in name]


async def test_a_call_that_waits_is_shown_while_it_does(http):
    claiming = asyncio.create_task(http.post("/v1/jobs/claim", json={"workerId": "w", "wait": 30}))
    while (await scraped(http))["bucketq_waiting_calls"] != 1:
        await asyncio.sleep(0.01)
    await http.post("/v1/jobs", json={})
    assert (await claiming).json()["jobId"]
    assert (await scraped(http))["bucketq_waiting_calls"] == 0


async def test_only_the_one_that_leads_is_ready_and_tells_of_jobs():
    storage = InMemoryStorage()
    async with serving(storage) as first:
        await leading(first)
        async with (
            serving(storage) as second,
            httpx.AsyncClient(base_url=f"http://{first.http}") as leader,
            httpx.AsyncClient(base_url=f"http://{second.http}") as standby,
        ):
            assert (await leader.get("/readyz")).status_code == 200
            assert (await standby.get("/readyz")).status_code == 503
            assert (await standby.get("/healthz")).json() == {"status": "ok"}
            told = await scraped(standby)
            assert told["bucketq_leading"] == 0
            assert not [name for name in told if name.startswith("bucketq_jobs")]
            assert (await scraped(leader))["bucketq_leading"] == 1
            assert (await standby.get("/v1/throttle-stats")).json()["pace"]["commits"] == 0
            assert (await leader.get("/v1/throttle-stats")).json()["throttling"] is False


async def test_who_waits_for_a_throttled_storage_is_told():
    storage = ThrottledStorage(InMemoryStorage(), writes_per_s=20, burst=1)
    async with (
        serving(storage) as broker,
        httpx.AsyncClient(base_url=f"http://{(await leading(broker)).http}") as http,
    ):
        while not (await http.get("/v1/throttle-stats")).json()["writes"]["waitedTotal"]:
            await asyncio.gather(*(http.post("/v1/jobs", json={}) for _ in range(3)))
        told = (await http.get("/v1/throttle-stats")).json()
        assert told["writes"]["limitPerSecond"] == 20
        assert told["writes"]["total"] >= 2
        assert told["writes"]["waitedSeconds"] > 0
        assert "limitPerSecond" not in told["reads"]
        assert told["throttling"]
        assert (told["totalWrites"], told["throttledWrites"]) == (
            told["writes"]["total"],
            told["writes"]["waitedTotal"],
        )
        assert (told["totalReads"], told["throttledReads"], told["totalReadDelayMs"]) == (
            told["reads"]["total"],
            0,
            0,
        )
        assert told["totalWriteDelayMs"] == round(told["writes"]["waitedSeconds"] * 1000)
        assert told["pace"]["commits"] >= 2
