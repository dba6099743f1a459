"""The gRPC shell of a broker: messages in, messages out, nothing of its own.

See proto/bucketq/v1/queue.proto. Beside the queue's own service stand reflection, and health, which
needs no token.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import BytesIO
from typing import Any, cast
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.status_pb2 import Status as RpcStatus
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_status import rpc_status

from bucketq.broker.access import Caller, Role
from bucketq.broker.allowance import Allowance
from bucketq.broker.cutting import Cutting
from bucketq.broker.door import Door
from bucketq.broker.holdings import TINY_BYTES, Hold, Holdings, answered, arriving
from bucketq.broker.open_health import OpenHealth
from bucketq.broker.receiving import Context, Receiving
from bucketq.broker.rpc import Method, Rpc, parsed
from bucketq.broker.service import Service
from bucketq.errors import (
    BucketQError,
    ClaimLostError,
    ConfigurationError,
    CorruptStateError,
    ForbiddenError,
    JobNotFoundError,
    KeyTakenError,
    NotLeaderError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PayloadError,
    QueueFullError,
    ScheduleNotFoundError,
    SessionForgottenError,
    StorageError,
    StorageFullError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from bucketq.tls import Tls
from bucketq.trace_context import TraceContext
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import refusal_message

_METADATA_BYTES_MAX = 8 * 1024
_UNREAD_BYTES_MAX = 4 * 1024
# Of each stream, gRPC has one in memory beside the object itself.
_CHUNK_BYTES = 256 * 1024
# gRPC takes an answer whole, and does not return how much of it was read.
_ANSWER_BYTES_PER_S_MIN = 256 * 1024

SERVICE = pb.DESCRIPTOR.services_by_name["Queue"].full_name

# The first that fits. Clients go by the Refusal in the details.
_CODES: list[tuple[type[Exception], grpc.StatusCode]] = [
    (ClaimLostError, grpc.StatusCode.FAILED_PRECONDITION),
    (JobNotFoundError, grpc.StatusCode.NOT_FOUND),
    (KeyTakenError, grpc.StatusCode.ALREADY_EXISTS),
    (ScheduleNotFoundError, grpc.StatusCode.NOT_FOUND),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
    (TooManyRequestsError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotLeaderError, grpc.StatusCode.UNAVAILABLE),
    (SessionForgottenError, grpc.StatusCode.ABORTED),
    (QueueFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (StorageFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (PayloadError, grpc.StatusCode.INVALID_ARGUMENT),
    (ConfigurationError, grpc.StatusCode.INVALID_ARGUMENT),
    (CorruptStateError, grpc.StatusCode.DATA_LOSS),
    (ObjectNotFoundError, grpc.StatusCode.NOT_FOUND),
    (ObjectExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (OutcomeUnknownError, grpc.StatusCode.UNKNOWN),
    (StorageError, grpc.StatusCode.UNAVAILABLE),
    (BucketQError, grpc.StatusCode.INTERNAL),
]


class GrpcShell:
    """A gRPC server for a service."""

    def __init__(self, service: Service, rpc: Rpc, door: Door, holdings: Holdings) -> None:
        self._service = service
        self._rpc = rpc
        self._door = door
        self._allowance, self._holdings = holdings.allowance, holdings
        self._receiving = Receiving(self._allowance)
        self._cutting = Cutting()
        self._server: grpc.aio.Server | None = None
        self._health = OpenHealth()
        services = SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME
        self._reflection = reflection.aio.ReflectionServicer(services)

    async def start(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listen; return the port, which is a free one if 0 was given. Raises ConfigurationError."""
        server = grpc.aio.server(options=_options(self._allowance, self._receiving.message_bytes_max))
        reflect: Any = grpc.stream_stream_rpc_method_handler(
            self._reflect, response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString
        )
        generic = grpc.method_handlers_generic_handler
        server.add_generic_rpc_handlers(
            (
                generic(SERVICE, self._handlers()),
                generic(reflection.SERVICE_NAME, {"ServerReflectionInfo": reflect}),
                self._health.handler,
            )
        )
        try:
            bound = _add_port(server, f"{in_brackets(host)}:{port}", tls)
        except RuntimeError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}; is another program there? {error}"
            ) from error
        await server.start()
        self._server, self._cutting.port = server, bound
        self.tell_health()
        return bound

    def tell_health(self) -> None:
        """Say whether this broker leads, to those who ask for its health."""
        self._health.tell_health(self._service.broker.is_leading)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way some time."""
        self._health.stop()
        if self._server is not None:
            await self._server.stop(grace_s)

    def _handlers(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        def unary(name: str, method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
            async def handle(_: object, context: Context) -> Any:
                self._hold(context)
                try:
                    async with (
                        self._visit(context, method.role, name) as caller,
                        self._message(context) as content,
                    ):
                        answer = await self._rpc.call(name, content, caller)
                except BucketQError as error:
                    await _refuse(context, error)
                if len(answer) > TINY_BYTES:
                    self._expect_reader(context, len(answer))
                return answer

            return grpc.stream_unary_rpc_method_handler(handle)

        # All of them take streams, which look the same on the wire: gRPC reads the message of a unary call
        # before the handler begins, so it would hold the messages of callers without a token.
        # All of them take bytes: gRPC itself would not tell a caller that a message is none.
        return {
            **{name: unary(name, method) for name, method in self._rpc.methods.items()},
            "ReadObject": grpc.stream_stream_rpc_method_handler(self._read_object),
            "CreateObject": grpc.stream_unary_rpc_method_handler(self._create_object),
        }

    def _hold(self, context: Context, owner: Hashable = None) -> Hold:
        hold = Hold(self._holdings, owner or context.peer())
        # The handler returns before gRPC has sent its answer.
        _done(context, lambda _: hold.close())
        return hold

    @asynccontextmanager
    async def _message(self, context: Context) -> AsyncIterator[bytes]:
        """The message of a unary call, which is counted while the block runs. Raises ConfigurationError."""
        content = await self._receiving.message(context)
        if content is None:
            raise ConfigurationError("a call must have a message; this one ended without one")
        has_room = self._holdings.count(arriving(context.peer()), len(content))
        try:
            if not has_room:
                raise TooManyRequestsError("too much is being sent at once")
            yield content
        finally:
            self._holdings.count(arriving(context.peer()), -len(content))

    async def _write(self, context: Context, content: Any) -> None:
        """Write one of several messages. If nobody reads it, the connection ends."""
        try:
            async with asyncio.timeout(self._allowance.body_within_s):
                await context.write(content)
        except TimeoutError:
            self._end(context)
            raise asyncio.CancelledError from None

    def _expect_reader(self, context: Context, size: int) -> None:
        within_s = self._allowance.body_within_s + size / _ANSWER_BYTES_PER_S_MIN
        unread = asyncio.get_running_loop().call_later(within_s, self._end, context)
        _done(context, lambda _: unread.cancel())

    def _end(self, context: Context) -> None:
        self._cutting.end(*_address_of(context.peer()))

    def _visit(self, context: Context, role: Role, method: str) -> AbstractAsyncContextManager[Caller]:
        metadata = dict(context.invocation_metadata() or ())
        authorization = str(metadata["authorization"]) if "authorization" in metadata else None
        sent = TraceContext.of(metadata.get("traceparent"), metadata.get("tracestate"))
        return self._door.visit(authorization, _address_of(context.peer())[0], role, "grpc", method, sent)

    async def _read_object(self, _: object, context: Context) -> None:
        # Not a generator: one whose caller has gone away would be ended later, and elsewhere.
        self._hold(context)
        try:
            async with self._visit(context, Role.VIEWER, "ReadObject") as caller:
                async with self._message(context) as request:
                    name = parsed(pb.ReadObjectRequest, request).name
                content = await answered(lambda: self._service.read_object(name, caller), is_repeatable=True)
                for start in range(0, len(content), _CHUNK_BYTES):
                    chunk = pb.Chunk(content=content[start : start + _CHUNK_BYTES])
                    await self._write(context, chunk.SerializeToString())
        except BucketQError as error:
            await _refuse(context, error)

    async def _reflect(self, _: object, context: Context) -> None:
        async def requests() -> AsyncIterator[Any]:
            while (content := await self._receiving.message(context)) is not None:
                yield parsed(reflection_pb2.ServerReflectionRequest, content)

        try:
            async with self._visit(context, Role.VIEWER, "ServerReflectionInfo"):
                async for response in self._reflection.ServerReflectionInfo(requests(), context):
                    await self._write(context, response)
        except BucketQError as error:
            await _refuse(context, error)

    async def _create_object(self, _: object, context: Context) -> bytes:
        hold = self._hold(context, arriving(context.peer()))
        try:
            async with self._visit(context, Role.VIEWER, "CreateObject") as caller:
                caller.need_to_create()
                name, content = await self._receive_object(context, hold)
                await self._service.create_object(name, content)
        except BucketQError as error:
            await _refuse(context, error)
        return pb.Done().SerializeToString()

    async def _receive_object(self, context: Context, hold: Hold) -> tuple[str, bytes]:
        async with self._message(context) as piece:
            request = parsed(pb.CreateObjectRequest, piece)
        name, size = request.name, request.size_bytes
        content = BytesIO()
        if size <= self._service.object_bytes_max:
            await hold.grow(size)
            content.write(request.content)
            while content.tell() <= size and (more := await self._receiving.message(context)) is not None:
                content.write(parsed(pb.CreateObjectRequest, more).content)
        # A connection that broke looks like a stream that has ended.
        if content.tell() != size:
            raise ConfigurationError("an object comes with its name and, exactly, its size_bytes")
        return name, content.getvalue()


def _add_port(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    # gRPC itself does not tell what is wrong with a certificate.
    tls.server_context()
    pem = tls.read()
    pair = pem.key or b"", pem.cert or b""
    credentials = grpc.ssl_server_credentials([pair], pem.ca, require_client_auth=pem.ca is not None)
    return server.add_secure_port(address, credentials)


def _options(allowance: Allowance, message_bytes_max: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", -1),
        # A small message must not become a large one: gRPC expands it before it looks at its size. The first
        # option refuses a compressed call, the second keeps gRPC from expanding anything.
        ("grpc.compression_enabled_algorithms_bitset", 1 << grpc.Compression.NoCompression.value),
        ("grpc.per_message_decompression", 0),
        # Two brokers must not share a port, each taking some of the calls.
        ("grpc.so_reuseport", 0),
        # Clients look by pings whether the broker is still there, and the broker whether they are.
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_time_ms", int(allowance.body_within_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(allowance.header_within_s * 1000)),
        ("grpc.max_allowed_incoming_connections", allowance.connections),
        ("grpc.max_connection_idle_ms", int(allowance.idle_s * 1000)),
        ("grpc.server_handshake_timeout_ms", int(allowance.header_within_s * 1000)),
        # Each waiting call is a stream, and those that do not wait must not stand in line behind them.
        ("grpc.max_concurrent_streams", allowance.waiting_per_client_max + 1000),
        # Between the two, gRPC refuses calls at random.
        ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES_MAX),
        # What a stream may send before its handler reads. A message that is read gets all the room it needs.
        ("grpc.http2.lookahead_bytes", _UNREAD_BYTES_MAX),
        ("grpc.http2.bdp_probe", 0),
    ]


def _done(context: Context, act: Callable[[object], None]) -> None:
    # The types of gRPC have a class in place of any function.
    context.add_done_callback(cast(Any, act))


def _address_of(peer: str) -> tuple[str, int]:
    """The address of what gRPC calls a peer.

    >>> _address_of("ipv4:127.0.0.1:7420"), _address_of("ipv6:%5B::1%5D:7420")
    (('127.0.0.1', 7420), ('::1', 7420))
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


def in_brackets(host: str) -> str:
    """A host as it stands before a port: an IPv6 address needs brackets.

    >>> in_brackets("::1")
    '[::1]'
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


async def _refuse(context: Context, error: BucketQError) -> None:
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    detail = AnyMessage()
    detail.Pack(refusal_message(error))
    status = RpcStatus(code=code.value[0], message=str(error), details=[detail])
    await context.abort_with_status(rpc_status.to_status(status))
