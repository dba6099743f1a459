"""GrpcBrokers: the way to brokers by gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_status import rpc_status

from bucketq.errors import BucketQError, QueueClosedError
from bucketq.remote.brokers import UnreachableError, check_way
from bucketq.remote.message_brokers import M, MessageBrokers
from bucketq.tls import Tls
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import CHUNK_BYTES, error_of

_CONNECT_WITHIN_S = 3.0
# A broker that stands still, or a network that swallows everything, is noticed by these.
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # The least that an attempt to connect is given, and the pauses between two of them.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Each queue of a process has a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
]


class GrpcBrokers(MessageBrokers):
    """One connection to each broker that is asked."""

    def __init__(self, token: str | None = None, tls: Tls | None = None) -> None:
        self._token = token
        self._credentials = _credentials(tls) if tls is not None else None
        self._metadata = (("authorization", f"Bearer {token}"),) if token is not None else None
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._is_closed = False

    async def read_object(self, address: str, name: str) -> bytes:
        channel = await self._connected(address)
        call = channel.unary_stream(
            _path("ReadObject"),
            request_serializer=pb.ReadObjectRequest.SerializeToString,
            response_deserializer=pb.Chunk.FromString,
        )
        with _told_errors():
            return b"".join(
                [
                    chunk.content
                    async for chunk in call(pb.ReadObjectRequest(name=name), metadata=self._metadata)
                ]
            )

    async def create_object(self, address: str, name: str, content: bytes) -> None:
        channel = await self._connected(address)
        call = channel.stream_unary(
            _path("CreateObject"),
            request_serializer=pb.CreateObjectRequest.SerializeToString,
            response_deserializer=pb.Done.FromString,
        )
        with _told_errors():
            await call(_pieces(name, content), metadata=self._metadata)

    async def close(self) -> None:
        self._is_closed = True
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def _ask(self, address: str, method: str, request: Message, response: type[M]) -> M:
        channel = await self._connected(address)
        from_string: Callable[[bytes], M] = response.FromString
        call = channel.unary_unary(
            _path(method),
            request_serializer=type(request).SerializeToString,
            response_deserializer=from_string,
        )
        with _told_errors():
            return await call(request, metadata=self._metadata)

    async def _connected(self, address: str) -> grpc.aio.Channel:
        """The connection to a broker. That there is one tells what was sent from what was not."""
        if self._is_closed:
            raise QueueClosedError("the queue is closed; open a new one with `async with`")
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._channel(address)
        try:
            async with asyncio.timeout(_CONNECT_WITHIN_S):
                await _ready(channel)
        except (TimeoutError, ConnectionError) as error:
            # Not to be waited for any more; the next attempt is a new one.
            if self._channels.get(address) is channel:
                del self._channels[address]
            await channel.close()
            # gRPC does not tell what it was.
            doubt = ", or its certificate is not trusted for this host" if self._credentials else ""
            raise UnreachableError(f"no connection to {address}{doubt}", was_sent=False) from error
        return channel

    def _channel(self, address: str) -> grpc.aio.Channel:
        check_way(address, self._token, is_encrypted=self._credentials is not None)
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=_OPTIONS)
        return grpc.aio.secure_channel(address, self._credentials, options=_OPTIONS)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    # gRPC itself does not tell what is wrong with a certificate.
    tls.client_context()
    pem = tls.read()
    return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)


async def _ready(channel: grpc.aio.Channel) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            raise ConnectionError(state.name)
        await channel.wait_for_state_change(state)


def _path(method: str) -> str:
    return f"/bucketq.v1.Queue/{method}"


async def _pieces(name: str, content: bytes) -> AsyncIterator[pb.CreateObjectRequest]:
    yield pb.CreateObjectRequest(name=name, size_bytes=len(content), content=content[:CHUNK_BYTES])
    for start in range(CHUNK_BYTES, len(content), CHUNK_BYTES):
        yield pb.CreateObjectRequest(content=content[start : start + CHUNK_BYTES])


@contextmanager
def _told_errors() -> Iterator[None]:
    """Raise what the broker refused with, or that it could not be reached."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _told(error) from error
    except asyncio.CancelledError:
        # A channel that is closed, because others found no connection, cancels its calls.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise UnreachableError("the connection was given up", was_sent=True) from None


def _told(error: grpc.aio.AioRpcError) -> Exception:
    status: Any = rpc_status.from_call(error)
    for detail in status.details if status else ():
        refusal = pb.Refusal()
        if detail.Unpack(refusal):
            return error_of(refusal)
    if error.code() in _CALLERS_FAULT:
        return BucketQError(f"the broker refused: {error.code().name}: {error.details()}")
    return UnreachableError(f"{error.code().name}: {error.details()}", was_sent=True)


_CALLERS_FAULT = {
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INVALID_ARGUMENT,
}
