"""Callers with tokens: what is inside a transaction is looked at."""

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
