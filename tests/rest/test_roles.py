"""Callers with tokens: what is inside a transaction is looked at, and names of workers are their own."""

import httpx
import pytest

from bucketq import InMemoryStorage
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from tests.rest.conftest import leading


@pytest.fixture
async def callers():
    """A client for each of some tokens."""
    made = {
        name: new_token(name, roles)
        for name, roles in {
            "viewer": ["viewer"],
            "producer": ["producer"],
            "worker": ["worker"],
            "other": ["worker"],
            "admin": ["admin"],
        }.items()
    }
    async with serving(InMemoryStorage(), tokens=Tokens([token for _, token in made.values()])) as broker:
        url = f"http://{(await leading(broker)).http}"
        clients = {
            name: httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {secret}"})
            for name, (secret, _) in made.items()
        }
        yield clients
        for client in clients.values():
            await client.aclose()


async def test_a_transaction_needs_the_roles_of_its_parts(callers):
    submit = {"do": "submit", "type": "t"}
    await callers["producer"].post("/v1/jobs", json={"type": "t"})
    got = (await callers["worker"].post("/v1/jobs/claim", json={"workerId": "w"})).json()
    complete = {"do": "complete", "jobId": got["jobId"], "token": got["token"]}
    for name, operations in (
        ("viewer", [submit]),
        ("viewer", [complete]),
        ("producer", [submit, complete]),
        ("worker", [complete, submit]),
    ):
        answer = await callers[name].post("/v1/transactions", json={"operations": operations})
        assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")
    stats = (await callers["viewer"].get("/v1/stats")).json()
    assert (stats["enqueuedTotal"], stats["completedTotal"]) == (1, 0)
    done = await callers["worker"].post("/v1/transactions", json={"operations": [complete]})
    assert done.status_code == 200


async def test_a_worker_of_the_same_name_with_another_token_is_another_worker(callers):
    job_id = (await callers["producer"].post("/v1/jobs", json={})).json()["jobId"]
    await callers["worker"].post("/v1/jobs/claim", json={"workerId": "w"})
    for path in ("heartbeat", "complete", "fail", "release"):
        answer = await callers["other"].post(f"/v1/jobs/{job_id}/{path}", json={"workerId": "w"})
        assert answer.status_code == 409
    done = await callers["worker"].post(f"/v1/jobs/{job_id}/complete", json={"workerId": "w"})
    assert done.status_code == 204


async def test_nobody_but_its_worker_is_told_the_token_of_a_claim(callers):
    job_id = (await callers["producer"].post("/v1/jobs", json={})).json()["jobId"]
    token = (await callers["worker"].post("/v1/jobs/claim", json={"workerId": "w"})).json()["token"]
    paths = ("/state", "/v1/jobs", f"/v1/jobs/{job_id}")
    for path in paths:
        assert token not in (await callers["viewer"].get(path)).text
    cancelled = await callers["producer"].post(f"/v1/jobs/{job_id}/cancel")
    assert cancelled.status_code == 200
    assert token not in cancelled.text
    assert token in (await callers["admin"].get("/state")).text, "the test looks for the right thing"
