"""Sessions: who is still inside, and who is not any more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from starlette.responses import Response

from bucketq import InMemoryStorage, Settings
from bucketq.broker.door import Door
from bucketq.broker.tokens import Tokens, new_token
from bucketq.dashboard.gate import Gate
from bucketq.dashboard.house import StorageHouse
from bucketq.dashboard.sessions import _SESSIONS_PER_TOKEN_MAX, Sessions
from bucketq.testing.still_clock import StillClock

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
async def known():
    """A house, and a token that it knows."""
    secret, token = new_token("ann", ["admin"])
    house = StorageHouse(InMemoryStorage(), Settings(), Door(Tokens([token])), needs_token=True)
    yield house, secret
    await house.close()


def browsing(gate):
    return httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1")


async def test_a_session_ends_when_nobody_was_there_for_long(known):
    house, secret = known
    clock = StillClock(NOON)
    sessions = Sessions(clock)
    idle, kept = [await sessions.begin(await house.admit(secret, "")) for _ in range(2)]
    clock.move_to(NOON + timedelta(hours=11))
    sessions.keep(kept)
    clock.move_to(NOON + timedelta(hours=13))
    assert sessions.find(idle) is None
    assert sessions.find(kept) is not None


async def test_a_token_with_many_sessions_ends_its_own_and_no_others():
    secrets, tokens = zip(*(new_token(name, ["viewer"]) for name in ("ann", "bob")), strict=True)
    house = StorageHouse(InMemoryStorage(), Settings(), Door(Tokens(tokens)), needs_token=True)
    sessions = Sessions()
    of_ann = await sessions.begin(await house.admit(secrets[0], ""))
    # The house counts sign-ins, and would refuse so many.
    bob = await house.admit(secrets[1], "")
    of_bob = [await sessions.begin(replace(bob)) for _ in range(1001)]
    assert sessions.find(of_ann) is not None
    assert [one for one in of_bob if sessions.find(one)] == of_bob[-_SESSIONS_PER_TOKEN_MAX:]
    await sessions.close()
    await house.close()


async def test_a_page_that_stays_open_after_its_visitor_has_left_is_not_heard(known):
    house, secret = known
    heard = []

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "websocket.receive":
            heard.append(message["text"])

    gate = Gate(app, house, is_encrypted=False)
    async with browsing(gate) as browser:
        signed_in = await browser.post("/dashboard/sign-in", data={"token": secret})
        cookie = signed_in.headers["Set-Cookie"].partition(";")[0]

        async def messages():
            yield {"type": "websocket.receive", "text": "while inside"}
            await browser.post("/dashboard/sign-out")
            yield {"type": "websocket.receive", "text": "after leaving"}
            yield {"type": "websocket.disconnect"}

        scope = {
            "type": "websocket",
            "path": "/dashboard/_nicegui_ws/socket.io/",
            "server": ("127.0.0.1", None),
            "headers": [(b"cookie", cookie.encode())],
        }
        await gate(scope, messages().__anext__, None)
    assert heard == ["while inside"]
    await gate.close()


async def test_a_session_is_found_beside_whatever_another_program_of_the_host_has_set(known):
    house, secret = known
    gate = Gate(Response("a page"), house, is_encrypted=False)
    async with browsing(gate) as browser:
        signed_in = await browser.post("/dashboard/sign-in", data={"token": secret})
        cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
        cookies = f'theirs={{"a": "b c"}}; {cookie}'
        assert (await browser.get("/dashboard/", headers={"Cookie": cookies})).text == "a page"
    await gate.close()
