"""/v1/ws as a browser, or a program in any language, meets it: JSON in, JSON out, on a real socket."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

import bucketq
from bucketq import InMemoryStorage, Settings
from bucketq.broker import ws_shell
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Beats
from bucketq.broker.calls import CALLS
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from bucketq.errors import QueueClosedError, TooLargeError
from bucketq.remote.http_brokers import HttpBrokers
from bucketq.remote.ws_brokers import WsBrokers
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.served import served
from tests.rest.conftest import leading

MESSAGE_BYTES_MAX = Allowance().message_bytes_max


class Talk:
    """One connection."""

    def __init__(self, socket):
        self.socket = socket
        self._number = 0

    async def send(self, method, **params):
        self._number += 1
        await self.socket.send_str(json.dumps({"id": self._number, "method": method, "params": params}))
        return self._number

    async def hear(self):
        message = await self.socket.receive(timeout=20)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return json.loads(message.data)

    async def call(self, method, **params):
        number = await self.send(method, **params)
        answer = await self.hear()
        assert answer["id"] == number
        return answer

    async def get(self, method, **params):
        answer = await self.call(method, **params)
        assert answer["ok"], answer
        return answer["result"]

    async def refusal(self, method, **params):
        answer = await self.call(method, **params)
        assert not answer["ok"]
        return answer["error"]["_tag"]


@asynccontextmanager
async def talking(broker, **options):
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://{broker.http}/v1/ws", **options) as socket,
    ):
        yield Talk(socket)


@pytest.fixture
async def talk(broker):
    async with talking(broker) as talk:
        yield talk


async def test_the_life_of_a_job(talk):
    job_id = (await talk.get("submitJob", type="mail", payload={"to": "alice"}))["jobId"]
    claimed = await talk.get("claimJob", workerId="w1", types=["mail"])
    assert (claimed["jobId"], claimed["payload"]) == (job_id, {"to": "alice"})
    assert await talk.get("heartbeat", jobId=job_id, workerId="w1", progress=0.5) is None
    assert (await talk.get("getStats"))["inProgress"] == 1
    assert [job["id"] for job in (await talk.get("listJobs"))["jobs"]] == [job_id]
    assert await talk.get("completeJob", jobId=job_id, workerId="w1") is None
    assert (await talk.get("getStats"))["completedTotal"] == 1


async def test_an_answer_has_the_shape_that_was_promised(talk):
    await talk.socket.send_str('{"id": "a", "method": "submitJob", "params": {"payload": 1}}')
    answer = await talk.hear()
    assert answer == {"id": "a", "ok": True, "result": {"jobId": answer["result"]["jobId"]}}
    await talk.socket.send_str(
        '{"id": 7, "method": "completeJob", "params": {"jobId": "?", "workerId": "w"}}'
    )
    answer = await talk.hear()
    assert answer["id"] == 7
    assert answer["ok"] is False
    assert answer["error"]["_tag"] == "JobNotFoundError"
    assert "not in the queue" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("{", None),
        ("", None),
        ("[]", None),
        ('"text"', None),
        ('{"method": "getStats"}', None),
        ('{"id": null, "method": "getStats"}', None),
        ('{"id": {"a": 1}, "method": "getStats"}', None),
        ('{"id": 1}', 1),
        ('{"id": 2, "method": 7}', 2),
        ('{"id": "x", "method": "nonsense"}', "x"),
        ('{"id": 3, "method": "__class__"}', 3),
        ('{"id": 4, "method": "getStats", "params": []}', 4),
        ('{"id": 5, "method": "getStats", "params": null}', 5),
        ('{"id": 6, "method": "submitJob", "params": {"nonsense": 1}}', 6),
        ('{"id": 7, "method": "claimJob", "params": {}}', 7),
        ('{"id": 8, "method": "completeJob", "params": {"workerId": "w"}}', 8),
        ('{"id": 9, "method": "authenticate", "params": {}}', 9),
        (
            '{"id": 10, "method": "submitJob", "params": '
            + '{"payload": '
            + "[" * 50_000
            + "]" * 50_000
            + "}}",
            None,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_is_malformed_is_told_and_the_connection_lives(talk, text, number):
    await talk.socket.send_str(text)
    answer = await talk.hear()
    assert (answer["id"], answer["ok"]) == (number, False)
    assert answer["error"]["_tag"] == "BrokerProtocolError"
    assert answer["error"]["message"]
    assert (await talk.get("getStats"))["total"] == 0


async def test_every_call_of_the_table_can_be_made(talk):
    for name in CALLS:
        answer = await talk.call(name, nonsense=1)
        assert "nonsense" in answer["error"]["message"], name


async def test_a_call_that_waits_holds_nobody_up_and_is_answered_when_its_time_comes(talk):
    waiting = await talk.send("claimJob", workerId="w", wait=20)
    submitted = await talk.send("submitJob", payload=1)
    answers = [await talk.hear(), await talk.hear()]
    assert {answer["id"] for answer in answers} == {waiting, submitted}
    assert all(answer["ok"] for answer in answers)
    assert "jobId" in next(answer["result"] for answer in answers if answer["id"] == waiting)


async def test_what_was_claimed_for_somebody_who_is_gone_is_given_back(broker, talk):
    async with talking(broker) as other:
        await other.send("claimJob", workerId="gone", wait=60)
        await other.get("getStats")
    await talk.get("submitJob", payload=1)
    claimed = await talk.get("claimJob", workerId="w", wait=20)
    assert claimed["attempts"] == 1, "the other one was not given it"


async def test_beyond_a_thousand_calls_under_way_nothing_is_read_until_some_are_answered(broker, talk):
    for _ in range(ws_shell.CALLS_MAX):
        await talk.send("claimJob", workerId="w", wait=60)
    await until_waiting(broker, ws_shell.CALLS_MAX)
    last = await talk.send("getStats")
    async with talking(broker) as other:
        await other.get("getStats")
        with pytest.raises(TimeoutError):
            await talk.socket.receive(timeout=0.5)
        await other.get("submitJob", payload=1)
    answers = [await talk.hear(), await talk.hear()]
    assert "jobId" in answers[0]["result"]
    assert answers[1]["id"] == last


async def test_more_calls_than_fit_end_the_connection_if_none_is_answered(broker, monkeypatch):
    monkeypatch.setattr(ws_shell, "CALLS_MAX", 2)
    monkeypatch.setattr(ws_shell, "ROOM_WITHIN_S", 0.3)
    async with talking(broker) as full, talking(broker) as other:
        for _ in range(3):
            await full.send("claimJob", workerId="w", wait=60)
        closed = await full.socket.receive(timeout=20)
        assert (closed.data, closed.extra) == (1013, "2 calls wait on this connection already")
        await until_waiting(broker, 0)
        await other.get("submitJob", payload=1)
        assert (await other.get("getStats"))["unclaimed"] == 1


async def test_a_message_that_is_too_large_closes_its_own_connection(broker, talk):
    async with talking(broker) as other:
        # The broker hangs up when it hears the length, so its reason may be lost on the way.
        with suppress(ConnectionError):
            await other.socket.send_str(
                '{"id": 1, "method": "getStats", "x": "' + "x" * MESSAGE_BYTES_MAX + '"}'
            )
        message = await other.socket.receive(timeout=20)
        assert other.socket.closed, message
        assert other.socket.close_code in (1006, 1009)
    assert (await talk.get("getStats"))["total"] == 0


async def test_what_is_not_answered_yet_is_held_and_limited_in_sum():
    allowance = Allowance(held_bytes_max=100_000)
    waits = json.dumps({"id": 1, "method": "claimJob", "params": {"workerId": "w", "wait": 60}})
    async with serving(InMemoryStorage(), allowance=allowance) as broker:
        await leading(broker)
        async with talking(broker) as hostile:
            for number in range(4):
                await hostile.socket.send_str(waits + " " * 30_000)
                if number < 3:
                    await hostile.get("getStats")
            assert (await hostile.socket.receive(timeout=20)).data == 1013
        # What it had sent is forgotten with it.
        async with talking(broker) as other:
            for _ in range(4):
                await other.get("submitJob", payload="x" * 90_000)


@pytest.mark.parametrize("kind", [HttpBrokers, WsBrokers])
async def test_a_client_in_python_hears_that_its_message_is_too_large(broker, kind):
    brokers = kind()
    with pytest.raises(TooLargeError):
        await brokers.find_archived(broker.http, "x" * (MESSAGE_BYTES_MAX + 1))
    assert await brokers.find_archived(broker.http, "x" * 5_000_000) is None
    await brokers.close()


SECRETS = {}


@pytest.fixture
async def guarded():
    tokens = []
    over = datetime.now(UTC) - timedelta(days=1)
    for name, roles, until in (
        ("web", ["producer"], None),
        ("mailer", ["worker"], None),
        ("old", ["admin"], over),
    ):
        SECRETS[name], token = new_token(name, roles, until)
        tokens.append(token)
    async with serving(InMemoryStorage(), tokens=Tokens(tokens)) as broker:
        while not broker.is_leading:
            await asyncio.sleep(0.005)
        yield broker


async def test_browsers_authenticate_by_their_first_call(guarded):
    async with talking(guarded) as talk:
        assert await talk.refusal("getStats") == "UnauthenticatedError"
        assert await talk.refusal("authenticate", token="bq_wrong") == "UnauthenticatedError"
        assert await talk.refusal("authenticate", token=SECRETS["old"]) == "UnauthenticatedError"
        assert await talk.get("authenticate", token=SECRETS["web"]) == {"roles": ["producer"]}
        await talk.get("submitJob", payload=1)
        assert await talk.refusal("claimJob", workerId="w") == "ForbiddenError"
        # Whoever it was before, it is somebody else now.
        await talk.get("authenticate", token=SECRETS["mailer"])
        assert "jobId" in await talk.get("claimJob", workerId="w")


async def test_others_authenticate_by_the_header(guarded):
    async with talking(guarded, headers={"Authorization": f"Bearer {SECRETS['web']}"}) as talk:
        await talk.get("submitJob", payload=1)
        assert await talk.refusal("pause") == "ForbiddenError"


async def test_a_call_that_follows_the_token_at_once_is_taken(guarded):
    async with talking(guarded) as talk:
        await talk.send("authenticate", token=SECRETS["web"])
        await talk.send("submitJob", payload=1)
        answers = [await talk.hear(), await talk.hear()]
        assert all(answer["ok"] for answer in answers)


async def test_whoever_shows_no_token_is_shown_out_and_whoever_does_stays(guarded, monkeypatch):
    monkeypatch.setattr(ws_shell, "AUTHENTICATE_WITHIN_S", 0.3)
    async with talking(guarded) as known, talking(guarded) as stranger:
        await known.get("authenticate", token=SECRETS["web"])
        message = await stranger.socket.receive(timeout=20)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)
        assert "token" in message.extra
        await known.get("getStats")


async def test_strangers_who_come_too_often_are_shown_out_too(monkeypatch):
    monkeypatch.setattr(ws_shell, "AUTHENTICATE_WITHIN_S", 0.3)
    _, token = new_token("web", ["producer"])
    rare = Allowance(rate_per_client=0.01, burst_per_client=1)
    async with (
        serving(InMemoryStorage(), tokens=Tokens([token]), allowance=rare) as broker,
        talking(broker) as one,
        talking(broker) as another,
    ):
        for stranger in (one, another):
            assert (await stranger.socket.receive(timeout=20)).data == 1008


async def test_a_token_that_is_revoked_is_good_for_no_further_call(tmp_path, monkeypatch):
    from bucketq.broker.token_file import TokenFile

    secret, token = new_token("web", ["producer"])
    _, other = new_token("other", ["viewer"])
    path = tmp_path / "tokens"
    path.write_text(f"{token.line}\n{other.line}\n")
    async with serving(InMemoryStorage(), tokens=TokenFile(str(path))) as broker, talking(broker) as talk:
        await talk.get("authenticate", token=secret)
        path.write_text(f"{other.line}\n")
        async with asyncio.timeout(20):
            while (await talk.call("getStats"))["ok"]:
                await asyncio.sleep(0.05)
        assert await talk.refusal("submitJob", payload=1) == "UnauthenticatedError"


async def test_a_page_of_another_site_gets_no_connection(broker):
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with talking(broker, origin="https://evil.example"):
            pass
    assert refused.value.status == 403


async def test_frames_and_json_go_side_by_side_and_frames_can_be_cancelled(talk):
    wait = pb.WaitReadyRequest(timeout_us=60_000_000).SerializeToString()
    await talk.socket.send_bytes(pb.Frame(id=1, method="WaitReady", body=wait).SerializeToString())
    await talk.socket.send_bytes(pb.Frame(id=2, method="Stats").SerializeToString())
    frame = pb.Frame.FromString((await talk.socket.receive(timeout=20)).data)
    assert frame.id == 2
    await talk.socket.send_bytes(pb.Frame(id=1).SerializeToString())
    await talk.socket.send_bytes(b"\xff\xff\xff")
    frame = pb.Frame.FromString((await talk.socket.receive(timeout=20)).data)
    assert (frame.id, frame.refusal.error) == (0, "ConfigurationError")
    await talk.socket.send_bytes(pb.Frame(id=3, method="Nonsense").SerializeToString())
    frame = pb.Frame.FromString((await talk.socket.receive(timeout=20)).data)
    assert (frame.id, frame.refusal.error) == (3, "ConfigurationError")
    assert (await talk.get("getStats"))["total"] == 0


async def test_a_standby_names_the_leader_and_the_connection_stays():
    storage = InMemoryStorage()
    async with serving(storage, beats=Beats(interval_s=0.2, timeout_s=1.0)) as leader:
        while not leader.is_leading:
            await asyncio.sleep(0.005)
        async with serving(storage) as standby, talking(standby) as talk:
            while standby.leader is None:
                await asyncio.sleep(0.005)
            error = (await talk.call("getStats"))["error"]
            assert (error["_tag"], error["leader"]) == ("NotLeaderError", leader.http)
            assert (await talk.call("submitJob"))["error"]["leader"] == leader.http


async def test_a_broker_that_stops_says_that_it_will_be_back(tmp_path):
    with served(f"file://{tmp_path}/queue.json") as broker:
        broker.wait_for("leading")
        async with talking(broker) as talk:
            waiting = await talk.send("claimJob", workerId="w", wait=60)
            await talk.send("getStats")
            await talk.hear()
            broker.signal(signal.SIGTERM)
            answer = await talk.hear()
            assert (answer["id"], answer["error"]["_tag"]) == (waiting, "NotLeaderError")
            message = await talk.socket.receive(timeout=20)
            assert (message.type, message.data) == (
                aiohttp.WSMsgType.CLOSE,
                aiohttp.WSCloseCode.SERVICE_RESTART,
            )
        assert await asyncio.to_thread(broker.wait) == 0
        assert not [line for line in broker.log if "Traceback" in str(line)]


async def test_a_client_with_more_waits_than_a_connection_takes_is_served(broker):
    async with bucketq.connect(f"ws://{broker.http}") as q:
        waiting = [asyncio.create_task(q.dequeue(wait=60)) for _ in range(ws_shell.CALLS_MAX + 200)]
        await until_waiting(broker, len(waiting))
        await q.enqueue_many("mail", range(len(waiting)))
        jobs = [job for found in await asyncio.gather(*waiting) for job in found]
    assert len({job.id for job in jobs}) == len(waiting)


@pytest.mark.parametrize("way", ["http", "ws"])
async def test_a_wait_that_is_given_up_takes_no_turn_from_others(way):
    # Nothing but the new job wakes anybody, and it wakes one.
    seldom = {"settings": Settings(poll_interval_s=300), "beats": Beats(interval_s=300, timeout_s=1000)}
    async with serving(InMemoryStorage(), **seldom) as broker:
        url = f"{way}://{broker.http}"
        async with bucketq.connect(url) as q, bucketq.connect(url) as other:
            await q.stats()
            given_up = asyncio.create_task(q.dequeue("mail", wait=300))
            await until_waiting(broker, 1)
            given_up.cancel()
            await asyncio.wait([given_up])
            await until_waiting(broker, 0)
            waiting = asyncio.create_task(other.dequeue("mail", wait=300))
            await until_waiting(broker, 1)
            await q.enqueue("mail")
            assert len(await asyncio.wait_for(waiting, 20)) == 1


async def until_waiting(broker, count):
    """Until so many wait at the broker, and those that gave up do not any more."""
    async with asyncio.timeout(20):
        while len(await broker.lead(waiters_of)) != count:
            await asyncio.sleep(0.01)


async def waiters_of(queue):
    return queue._group._waiters


@pytest.mark.parametrize("way", ["grpc", "http", "ws"])
async def test_a_queue_that_is_closed_leaves_nobody_waiting(broker, way):
    q = bucketq.connect(f"{way}://{broker.address if way == 'grpc' else broker.http}")
    async with q:
        await q.stats()
        waiting = asyncio.create_task(q.dequeue(wait=60))
        await until_waiting(broker, 1)
    with pytest.raises(QueueClosedError):
        await asyncio.wait_for(waiting, 20)
