"""Pages of other sites cannot drive a broker, and browsers are told to be careful with its answers."""

import json
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bucketq import InMemoryStorage
from bucketq.broker.serving import serving
from bucketq.broker.site import check_origin
from bucketq.broker.tokens import Tokens, new_token
from bucketq.errors import ConfigurationError
from tests.rest.conftest import leading

ALLOWED = "https://dashboard.example"


@pytest.fixture
async def open_http():
    """A client of a broker that pages of another site may talk to."""
    async with (
        serving(InMemoryStorage(), cors_origins=[ALLOWED]) as broker,
        httpx.AsyncClient(base_url=f"http://{(await leading(broker)).http}") as client,
    ):
        yield client


@pytest.mark.parametrize(
    "path", ["/v1/stats", "/state", "/healthz", "/openapi.json", "/nothing", "/v1/jobs/none"]
)
async def test_every_answer_has_the_headers(http, path):
    headers = (await http.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://evil.localhost"]
)
async def test_pages_of_other_sites_are_refused(http, origin):
    answer = await http.post("/v1/jobs", json={"payload": 1}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")
    assert (await http.get("/v1/stats")).json()["total"] == 0


async def test_pages_of_its_own_are_not(http):
    own = str(http.base_url).rstrip("/")
    assert (await http.post("/v1/jobs", json={}, headers={"Origin": own})).status_code == 200


async def test_preflights_are_refused_unless_allowed(http):
    asked = {"Origin": ALLOWED, "Access-Control-Request-Method": "POST"}
    answer = await http.options("/v1/jobs", headers=asked)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_pages_that_are_allowed(open_http):
    asked = {"Origin": ALLOWED, "Access-Control-Request-Method": "POST"}
    preflight = await open_http.options("/v1/jobs", headers=asked)
    assert preflight.status_code == 204
    assert (
        preflight.headers["access-control-allow-headers"]
        == "Authorization, Content-Type, Traceparent, Tracestate"
    )
    for answer in (
        preflight,
        await open_http.post("/v1/jobs", json={}, headers={"Origin": ALLOWED}),
        await open_http.post("/v1/jobs", content=b"{", headers={"Origin": ALLOWED}),
    ):
        assert answer.headers["access-control-allow-origin"] == ALLOWED
        assert answer.headers["vary"] == "Origin"
    other = await open_http.get("/v1/stats", headers={"Origin": "https://evil.example"})
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "localhost.evil.example", ""])
async def test_a_name_that_is_not_its_own_is_refused(http, host):
    answer = await http.get("/v1/stats", headers={"Host": host})
    assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")
    assert "--advertise" in answer.json()["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8420", "10.1.2.3", "a.localhost"]
)
async def test_addresses_and_this_machine_are_its_own(http, host):
    assert (await http.get("/v1/stats", headers={"Host": host})).status_code == 200


async def test_the_advertised_name_is_its_own():
    async with serving(InMemoryStorage(), advertise="Broker.example") as broker:
        address = (await leading(broker)).http.replace("Broker.example", "localhost")
        async with httpx.AsyncClient(base_url=f"http://{address}") as http:
            answer = await http.get("/v1/stats", headers={"Host": "broker.example:99"})
            assert answer.status_code == 200


async def test_with_tokens_any_name_will_do():
    secret, token = new_token("web", ["viewer"])
    async with (
        serving(InMemoryStorage(), tokens=Tokens([token])) as broker,
        httpx.AsyncClient(base_url=f"http://{(await leading(broker)).http}") as http,
    ):
        headers = {"Host": "broker.example", "Authorization": f"Bearer {secret}"}
        assert (await http.get("/v1/stats", headers=headers)).status_code == 200
        page = headers | {"Origin": "https://evil.example"}
        assert (await http.get("/v1/stats", headers=page)).status_code == 403


async def test_a_websocket_of_another_site_is_refused(http):
    address = urlsplit(str(http.base_url)).netloc
    with pytest.raises(InvalidStatus) as caught:
        async with connect(f"ws://{address}/v1/ws", origin="https://evil.example"):
            pass
    assert caught.value.response.status_code == 403
    assert json.loads(caught.value.response.body)["_tag"] == "ForbiddenError"


@pytest.mark.parametrize(
    "wrong", ["*", "example.com", "https://example.com/", "https://Example.com", "null", ""]
)
def test_what_is_no_origin(wrong):
    with pytest.raises(ConfigurationError, match="an origin is"):
        check_origin(wrong)
