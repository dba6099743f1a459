"""Clients by HTTP and WebSocket of something that is no broker, or none any more: a clear error, and the
truth about whether the message may have arrived."""

import asyncio
import socket
from base64 import b64encode
from contextlib import asynccontextmanager, suppress
from hashlib import sha1

import pytest
from websockets.asyncio.server import serve

from bucketq import BucketQError, TooManyRequestsError, UnauthenticatedError
from bucketq.errors import TooLargeError
from bucketq.operation import Refresh
from bucketq.remote import pulse, ws_brokers
from bucketq.remote.brokers import UnreachableError
from bucketq.remote.http_brokers import HttpBrokers
from bucketq.remote.ws_brokers import WsBrokers
from bucketq.v1 import queue_pb2 as pb

HTML = b"<html>Please log in</html>"


def answer(status, content, media="text/html", *headers, length=None):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media}", f"Content-Length: {length or len(content)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + content


@asynccontextmanager
async def answering(reply):
    """A server that gives the same reply to whatever comes, and what has come to it."""
    came = []

    async def handle(reader, writer):
        came.append(await reader.read(65536))
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came


@asynccontextmanager
async def opened(brokers):
    try:
        yield brokers
    finally:
        await brokers.close()


async def error_of(kind, address, token=None):
    """What a client raises that asks something there."""
    async with opened(kind(token)) as brokers:
        with pytest.raises((BucketQError, UnreachableError)) as raised:
            await asyncio.wait_for(brokers.find_archived(address, "1"), 10)
    return raised.value


async def test_what_never_got_a_connection_was_not_sent():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = "{}:{}".format(*deaf.getsockname())
        with socket.socket() as first, socket.socket() as second:
            for full in (first, second):
                full.setblocking(False)
                with suppress(BlockingIOError):
                    full.connect(deaf.getsockname())
            error = await error_of(HttpBrokers, address)
    assert isinstance(error, UnreachableError)
    assert not error.was_sent
    assert "timeout" in str(error).lower()


PROTOBUF = "application/x-protobuf"
LIES = {
    "a page": (answer("200 OK", HTML), BucketQError, "answered 200 with text/html"),
    "not found": (answer("404 Not Found", HTML), BucketQError, "answered 404"),
    "a gateway": (answer("502 Bad Gateway", HTML), UnreachableError, "answered 502"),
    "a failure": (answer("500 Internal Server Error", b"", "text/plain"), UnreachableError, "answered 500"),
    "garbage": (answer("200 OK", b"\xff\xff\xff", PROTOBUF), UnreachableError, "an answer that is none"),
    "a garbage refusal": (answer("409 Conflict", b"\xff\xff", PROTOBUF), UnreachableError, "none"),
    "half a body": (answer("200 OK", b"\x0a", PROTOBUF, length=99), UnreachableError, "broke"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", UnreachableError, "broke"),
    "nothing": (b"", UnreachableError, "broke"),
    "a login": (answer("401 Unauthorized", HTML), UnauthenticatedError, "token"),
    "too large": (answer("413 Content Too Large", HTML), TooLargeError, "too large"),
}


@pytest.mark.parametrize(("reply", "kind", "says"), LIES.values(), ids=LIES)
async def test_an_answer_that_no_broker_gives_is_told_as_what_it_is(reply, kind, says):
    async with answering(reply) as (address, _):
        error = await error_of(HttpBrokers, address)
    assert type(error) is kind
    assert says in str(error)
    assert address in str(error)
    if kind is UnreachableError:
        assert error.was_sent


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer("200 OK", HTML), BucketQError),
        (answer("404 Not Found", HTML), BucketQError),
        (answer("502 Bad Gateway", HTML), UnreachableError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", UnreachableError),
        (b"", UnreachableError),
    ],
    ids=["a page", "not found", "a gateway", "no HTTP", "nothing"],
)
async def test_without_a_handshake_nothing_was_sent_by_websocket(reply, kind):
    async with answering(reply) as (address, _):
        error = await error_of(WsBrokers, address)
    assert type(error) is kind
    assert address in str(error)
    if kind is UnreachableError:
        assert not error.was_sent


@pytest.mark.parametrize("brokers", [HttpBrokers, WsBrokers])
@pytest.mark.parametrize(
    "reply", [b"SSH-2.0-OpenSSH_9.6\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]
)
async def test_a_token_is_in_no_error_however_strange_the_answer(brokers, reply):
    async with answering(reply) as (address, came):
        error = await error_of(brokers, address, "bq_secret")
    assert b"bq_secret" in came[0], "it was sent, to whoever that is"
    while error is not None:
        assert "bq_secret" not in f"{error} {error!r}"
        error = error.__cause__


@pytest.mark.parametrize("brokers", [HttpBrokers, WsBrokers])
async def test_where_nobody_listens_nothing_was_sent(brokers):
    error = await error_of(brokers, "127.0.0.1:1")
    assert isinstance(error, UnreachableError)
    assert not error.was_sent


@pytest.mark.parametrize("brokers", [HttpBrokers, WsBrokers])
async def test_nobody_is_followed_to_another_server_least_of_all_with_a_token(brokers):
    async with answering(answer("200 OK", HTML)) as (other, came_there):
        reply = answer("302 Found", b"", "text/html", f"Location: http://{other}/v1/rpc/FindArchived")
        async with answering(reply) as (address, came):
            error = await error_of(brokers, address, token="bq_secret")
    assert "redirect" in str(error)
    assert b"bq_secret" in came[0]
    assert came_there == []


async def test_a_proxy_that_wants_fewer_requests_is_told_with_its_time():
    async with answering(answer("429 Too Many Requests", HTML, "text/html", "Retry-After: 7")) as (there, _):
        error = await error_of(HttpBrokers, there)
    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after_s == 7


async def test_a_batch_with_too_few_answers_is_not_answered():
    content = pb.BatchResponse(version=7).SerializeToString()
    async with (
        answering(answer("200 OK", content, PROTOBUF)) as (address, _),
        opened(HttpBrokers()) as brokers,
    ):
        with pytest.raises(UnreachableError) as raised:
            await brokers.batch(address, "s", 1, 0, [Refresh()])
    assert raised.value.was_sent


@pytest.mark.parametrize(
    "names",
    [[], ["payloads/1"], ["payloads/3", "payloads/2"]],
    ids=["an empty page", "the same page", "out of order"],
)
async def test_a_listing_that_does_not_go_on_is_given_up(names):
    objects = [pb.ObjectInfo(name=name) for name in names]
    content = pb.ListObjectsResponse(objects=objects, has_more=True).SerializeToString()
    async with (
        answering(answer("200 OK", content, PROTOBUF)) as (address, _),
        opened(HttpBrokers()) as brokers,
    ):
        with pytest.raises(UnreachableError, match="does not go on"):
            await brokers.list_objects(address, "payloads/", "payloads/1")


@asynccontextmanager
async def talking(handle):
    async with serve(handle, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("lie", [b"\xff\xff\xff", "text", None], ids=["garbage", "text", "the end"])
async def test_a_websocket_that_lies_is_given_up_and_the_next_call_has_a_new_one(lie):
    calls = []

    async def handle(socket):
        async for message in socket:
            frame = pb.Frame.FromString(message)
            calls.append(frame.method)
            if len(calls) > 1:
                await socket.send(pb.Frame(id=frame.id).SerializeToString())
            elif lie is None:
                return
            else:
                await socket.send(lie)

    async with talking(handle) as address, opened(WsBrokers()) as brokers:
        with pytest.raises(UnreachableError) as raised:
            await brokers.find_archived(address, "1")
        assert raised.value.was_sent
        assert await brokers.find_archived(address, "1") is None
    assert calls == ["FindArchived"] * 2


async def test_answers_find_their_calls_in_any_order():
    async def handle(socket):
        asked = {}
        while len(asked) < 3:
            frame = pb.Frame.FromString(await socket.recv())
            asked[pb.FindArchivedRequest.FromString(frame.body).job_id] = frame.id
        for job_id in ("3", "1", "2"):
            told = pb.FindArchivedResponse(ending=pb.Ending(status="dead", error=job_id))
            await socket.send(pb.Frame(id=asked[job_id], body=told.SerializeToString()).SerializeToString())
        await socket.wait_closed()

    async with talking(handle) as address, opened(WsBrokers()) as brokers:
        endings = await asyncio.gather(*(brokers.find_archived(address, job_id) for job_id in "123"))
    assert [ending.error for ending in endings] == ["1", "2", "3"]


@asynccontextmanager
async def standing_still(reply=lambda request: b""):
    """A server that keeps every connection open, and answers only what `reply` says."""
    writers = []

    async def handle(reader, writer):
        writers.append(writer)
        while request := await reader.read(65536):
            writer.write(reply(request))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        server.close()


def handshake(request):
    """The answer of a server that takes a WebSocket, and then says no more."""
    for line in request.decode(errors="replace").split("\r\n"):
        if line.lower().startswith("sec-websocket-key:"):
            key = line.partition(":")[2].strip() + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accepted = b64encode(sha1(key.encode()).digest()).decode()
            return (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {accepted}\r\n\r\n"
            ).encode()
    return b""


async def test_a_broker_that_stands_still_is_noticed_however_long_a_call_may_take(monkeypatch):
    monkeypatch.setattr(pulse, "_FEEL_EVERY_S", 0.1)
    monkeypatch.setattr(pulse, "_ANSWER_WITHIN_S", 0.1)
    monkeypatch.setattr(ws_brokers, "_HEARTBEAT_S", 0.2)
    async with standing_still() as address:
        error = await error_of(HttpBrokers, address)
        assert isinstance(error, UnreachableError)
        assert error.was_sent
    async with standing_still(handshake) as address:
        error = await error_of(WsBrokers, address)
        assert isinstance(error, UnreachableError)
        assert error.was_sent


async def test_a_broker_that_lives_may_take_its_time(monkeypatch):
    monkeypatch.setattr(pulse, "_FEEL_EVERY_S", 0.05)
    monkeypatch.setattr(pulse, "_ANSWER_WITHIN_S", 5)
    felt = asyncio.Event()

    def reply(request):
        if b"/healthz" not in request:
            return b""
        felt.set()
        return answer("200 OK", b"{}", "application/json")

    async with standing_still(reply) as address, opened(HttpBrokers()) as brokers:
        asking = asyncio.create_task(brokers.find_archived(address, "1"))
        for _ in range(3):
            await asyncio.wait_for(felt.wait(), 10)
            felt.clear()
        assert not asking.done()
        asking.cancel()
