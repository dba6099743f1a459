"""HttpBrokers: the way to brokers by HTTP, for networks that let nothing else through.

    batch ──▶ ┐                   ┌ POST /v1/rpc/Batch          one connection for each call that is
    wait  ──▶ ├─ kept connections ┼ POST /v1/rpc/WaitReady      under way; they are kept for the next
    read  ──▶ ┘                   └ GET /v1/objects/backlog/…

    pulse ────────────────────────▶ GET /healthz                while a call takes long

A call may take as long as it needs, as long as its broker lives. Answers that no broker gives
(a page of a proxy, a redirect, half a body) are errors that say so; a token is sent to nobody
but the address that was asked.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote

import aiohttp
from google.protobuf.message import Message
from yarl import URL

from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    ForbiddenError,
    QueueClosedError,
    TooLargeError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from bucketq.remote.brokers import UnreachableError, check_way
from bucketq.remote.message_brokers import M, MessageBrokers, understanding
from bucketq.remote.pulse import Pulse
from bucketq.tls import Tls
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import BYTES, CHUNK_BYTES, PROTOBUF, error_of

_CONNECT_WITHIN_S = 3.0
# Shorter than a broker keeps a connection that nobody uses.
_KEEP_S = 30.0

# Errors by which nothing can have been asked yet.
_UNCONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class HttpBrokers(MessageBrokers):
    """As many connections to each broker as there are calls under way."""

    def __init__(self, token: str | None = None, tls: Tls | None = None) -> None:
        self._token = token
        self._is_encrypted = tls is not None
        self._pulses: dict[str, Pulse] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEP_S, ssl=True if tls is None else tls.client_context()
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept-Encoding": "identity",
                **({} if token is None else {"Authorization": f"Bearer {token}"}),
            },
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_WITHIN_S),
            middlewares=(_refuse_redirects,),
        )

    async def read_object(self, address: str, name: str) -> bytes:
        return await self._request("GET", address, f"/v1/objects/{quote(name)}", BYTES)

    async def create_object(self, address: str, name: str, content: bytes) -> None:
        await self._request("PUT", address, f"/v1/objects/{quote(name)}", None, content)

    async def close(self) -> None:
        for pulse in self._pulses.values():
            pulse.stop()
        await self._session.close()

    async def _ask(self, address: str, method: str, request: Message, response: type[M]) -> M:
        body = request.SerializeToString()
        content = await self._request("POST", address, f"/v1/rpc/{method}", PROTOBUF, body, PROTOBUF)
        with understanding(address):
            return response.FromString(content)

    async def _request(
        self,
        verb: str,
        address: str,
        path: str,
        wanted: str | None,
        body: bytes | None = None,
        body_type: str = BYTES,
    ) -> bytes:
        """What is answered with the wanted type, or, if it is None, with nothing."""
        headers = None
        if body is not None:
            headers = {"Content-Type": body_type, "Content-Length": str(len(body))}
        pieces = _pieces(body) if body and len(body) > CHUNK_BYTES else body
        with self._told_errors(address):
            url = self._url(address, path)
            async with (
                self._living(address),
                self._session.request(verb, url, data=pieces, headers=headers) as response,
            ):
                content = await response.read()
        if response.status == 200 and wanted is not None and response.content_type == wanted:
            return content
        if response.status == 204 and wanted is None:
            return b""
        raise _refused(address, response, content)

    def _url(self, address: str, path: str) -> URL:
        check_way(address, self._token, is_encrypted=self._is_encrypted)
        try:
            return URL(f"{'https' if self._is_encrypted else 'http'}://{address}{path}", encoded=True)
        except ValueError as error:
            raise ConfigurationError(f"no broker can be at {address}: {error}") from error

    @asynccontextmanager
    async def _living(self, address: str) -> AsyncIterator[None]:
        """End the block, as one that took too long, when the broker does not live any more."""
        pulse = self._pulses.get(address)
        if pulse is None:
            pulse = self._pulses[address] = Pulse(lambda: self._ping(address))
        async with pulse.felt():
            yield

    async def _ping(self, address: str) -> None:
        async with self._session.get(self._url(address, "/healthz")) as response:
            await response.read()

    @contextmanager
    def _told_errors(self, address: str) -> Iterator[None]:
        """Raise that the broker could not be reached, and whether it may have got the message."""
        if self._session.closed:
            raise QueueClosedError("the queue is closed; open a new one with `async with`")
        try:
            yield
        except _UNCONNECTED as error:
            raise UnreachableError(f"no connection to {address}: {error}", was_sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            # Not its repr, which has the header with the token.
            says = f"the connection to {address} broke: {type(error).__name__}: {error}"
            if isinstance(error, aiohttp.ClientResponseError):
                # It would show the bytes, such as those of gRPC.
                says = f"what {address} answers is no HTTP"
            doubt = "Is that the HTTP port of a broker, with TLS or without, as the URL has it?"
            raise UnreachableError(f"{says}. {doubt}", was_sent=True) from None


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]


async def _refuse_redirects(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    response = await handler(request)
    if 300 <= response.status < 400:
        response.close()
        raise BucketQError(
            f"{request.url.authority} answered with a redirect ({response.status}), which no broker does."
            " Give the address of the broker itself."
        )
    return response


def _refused(address: str, response: aiohttp.ClientResponse, content: bytes) -> Exception:
    """Why there is no answer: the broker's own words, or else what the status says."""
    if response.status >= 400 and response.content_type == PROTOBUF:
        with understanding(address):
            return error_of(pb.Refusal.FromString(content))
    return refused_with(
        address, response.status, response.content_type, response.headers.get("Retry-After", "")
    )


def refused_with(address: str, status: int, media: str, retry_after: str = "") -> Exception:
    """Why there is no answer, if it is not the broker itself that says so."""
    says = f"{address} answered {status} with {media}"
    if status == 401:
        return UnauthenticatedError(f"{says}: it wants a token, or another one")
    if status == 403:
        return ForbiddenError(f"{says}: it does not let this client in")
    if status == 408:
        return UnreachableError(f"{says}: the message did not arrive in time", was_sent=False)
    if status == 413:
        return TooLargeError(f"{says}: the message is too large for it")
    if status == 429:
        return TooManyRequestsError(says, float(retry_after) if retry_after.isdigit() else 1.0)
    if status >= 500:
        return UnreachableError(says, was_sent=True)
    return BucketQError(f"{says}, which no broker does. Is it the address of a broker, and of its HTTP port?")
