"""The gate: what comes past it, by plain HTTP and WebSocket, without a browser's good manners."""

import re

import aiohttp
import pytest

from bucketq.broker.tokens import new_token
from bucketq.dashboard.outside import way_back
from tests.acceptance.served import served

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="


@pytest.fixture(scope="module")
def secret_and_base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue")
    secret, token = new_token("ann", ["admin"])
    (folder / "tokens").write_text(f"{token.line}\n")
    options = ("--dashboard", "--tokens-file", str(folder / "tokens"), "--rate-per-client", "50")
    with served(f"file://{folder}/queue.json", *options) as broker:
        yield secret, f"http://{broker.http}/dashboard"


@pytest.fixture
async def visit(secret_and_base):
    """A session of HTTP that follows no redirects, and keeps cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:

        def visit(method, path, **more):
            return session.request(method, secret_and_base[1] + path, allow_redirects=False, **more)

        yield visit


async def sign_in(visit, secret, **form):
    async with visit("POST", "/sign-in", data={"token": secret, **form}) as response:
        return response.status, response.headers


async def test_without_a_session_every_page_leads_to_signing_in(visit):
    for path in ("/", "/jobs?status=dead", "/raw", "/nonsense"):
        async with visit("GET", path) as response:
            assert response.status == 303
            assert response.headers["Location"].startswith("/dashboard/sign-in?next=%2Fdashboard%2F")


async def test_without_a_session_no_socket_is_opened_and_with_one_only_a_websocket(visit, secret_and_base):
    secret, _ = secret_and_base
    for transport in ("websocket", "polling"):
        async with visit("GET", SOCKET + transport) as response:
            assert response.status == 401
    assert (await sign_in(visit, secret))[0] == 303
    async with visit("GET", SOCKET + "polling") as response:
        assert response.status == 400


async def test_a_page_of_another_origin_can_neither_sign_in_nor_listen(visit, secret_and_base):
    secret, _ = secret_and_base
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        headers = {"Origin": origin}
        async with visit("POST", "/sign-in", data={"token": secret}, headers=headers) as response:
            assert response.status == 403
            assert "Set-Cookie" not in response.headers
        async with visit("GET", SOCKET + "websocket", headers=headers) as response:
            assert response.status == 403


async def test_what_browsers_are_told_with_pages_and_with_all_else(visit, secret_and_base):
    secret, _ = secret_and_base
    async with visit("GET", "/sign-in") as response:
        assert "script-src" not in response.headers["Content-Security-Policy"]
        assert response.headers["Cache-Control"] == "no-store"
    assert (await sign_in(visit, secret))[0] == 303
    async with visit("GET", "/") as response:
        policy, page = response.headers["Content-Security-Policy"], await response.text()
        assert response.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert secret not in page
    script = re.search(r'"/dashboard(/_nicegui/[^"]*quasar[^"]*\.js)"', page)[1]
    async with visit("GET", script) as response:
        assert response.status == 200
        assert "immutable" in response.headers["Cache-Control"]
    async with visit("GET", "/../healthz") as response:
        assert response.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_a_session_is_a_cookie_of_this_port_and_ends_by_a_post_alone(visit, secret_and_base):
    secret, base = secret_and_base
    _, headers = await sign_in(visit, secret, next="https://evil.example/")
    assert headers["Location"] == "/dashboard/"
    name, _, rest = headers["Set-Cookie"].partition("=")
    assert name == f"bucketq-{base.split(':')[2].split('/')[0]}"
    assert {"HttpOnly", "SameSite=strict", "Path=/dashboard"} <= {part.strip() for part in rest.split(";")}
    assert secret not in rest
    async with visit("GET", "/sign-out"):
        pass
    async with visit("GET", "/") as response:
        assert response.status == 200
    async with visit("POST", "/sign-out"):
        pass
    async with visit("GET", "/") as response:
        assert response.status == 303


async def test_where_no_page_is_nothing_is_kept_for_whoever_asks(visit, secret_and_base):
    async def missing(path):
        async with visit("GET", path) as response:
            assert response.status == 404
            return await response.text()

    # Before signing in too: each page of NiceGUI's own would stay in memory for a minute.
    assert "There is no such page." in await missing("/_nicegui/nonsense")
    assert (await sign_in(visit, secret_and_base[0]))[0] == 303
    assert "There is no such page." in await missing("/nonsense")


async def test_wrong_tokens_and_large_forms_are_refused_and_count(visit):
    assert (await sign_in(visit, "bq_wrong"))[0] == 401
    assert (await sign_in(visit, "x" * 100_000))[0] == 401
    assert (await sign_in(visit, "bq_wrong", **{f"field{n}": "x" for n in range(20)}))[0] == 401
    statuses = {(await sign_in(visit, "bq_wrong"))[0] for _ in range(80)}
    assert 429 in statuses


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "/dashboard/\\evil", "https://evil.example", "/v1/jobs", "", "/dashboard/\r\nx"],
)
def test_signing_in_leads_to_the_dashboard_and_nowhere_else(wanted):
    assert way_back("/dashboard", wanted) == "/dashboard/"
