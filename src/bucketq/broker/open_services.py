"""The services of gRPC that need no token: health, which is SERVING while this broker leads, and reflection.

gRPC reads a whole message, of up to --message-bytes-max, before it hands it over. So these services read
only a few messages at a time. At the limit, the call that has waited longest ends.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from bucketq.broker.allowance import Allowance

# A request names a service or a symbol.
_REQUEST_BYTES_MAX = 4 * 1024
_READING_MAX = 4
_WATCHING_MAX = 100

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class OpenServices:
    """The health and reflection of a server that also has the service `name`."""

    def __init__(self, name: str, allowance: Allowance) -> None:
        self._name = name
        self._within_s = allowance.header_within_s
        self._health = health.aio.HealthServicer()
        names = (name, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self._reflection = reflection.aio.ReflectionServicer(names)
        self._reading = _Few(_READING_MAX)
        self._watching = _Few(_WATCHING_MAX)

    @property
    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """What a server needs to serve them."""
        in_bytes = health_pb2.HealthCheckResponse.SerializeToString
        check: Any = grpc.stream_unary_rpc_method_handler(self._check, None, in_bytes)
        watch: Any = grpc.stream_stream_rpc_method_handler(self._watch, None, in_bytes)
        in_bytes = reflection_pb2.ServerReflectionResponse.SerializeToString
        reflect: Any = grpc.stream_stream_rpc_method_handler(self._reflect, None, in_bytes)
        generic = grpc.method_handlers_generic_handler
        return [
            generic(health.SERVICE_NAME, {"Check": check, "Watch": watch}),
            generic(reflection.SERVICE_NAME, {"ServerReflectionInfo": reflect}),
        ]

    async def tell_health(self, is_leading: bool) -> None:
        """Set the health of the service. The process as such is well in either case."""
        statuses = health_pb2.HealthCheckResponse
        await self._health.set(self._name, statuses.SERVING if is_leading else statuses.NOT_SERVING)
        await self._health.set("", statuses.SERVING)

    async def stop(self) -> None:
        """Set the health to NOT_SERVING for good."""
        await self._health.enter_graceful_shutdown()

    async def _check(self, _: object, context: Context) -> Any:
        return await self._health.Check(await self._health_request(context), context)

    async def _watch(self, _: object, context: Context) -> None:
        request = await self._health_request(context)
        try:
            async with self._watching.stay():
                await self._health.Watch(request, context)
        except TimeoutError:
            await _refuse_busy(context)

    async def _reflect(self, _: object, context: Context) -> None:
        async def requests() -> AsyncIterator[Any]:
            while (request := await _request(context, reflection_pb2.ServerReflectionRequest)) is not None:
                yield request

        try:
            async with self._reading.stay(self._within_s):
                async for response in self._reflection.ServerReflectionInfo(requests(), context):
                    await context.write(response)
        except TimeoutError:
            await _refuse_busy(context)

    async def _health_request(self, context: Context) -> Any:
        request = None
        try:
            async with self._reading.stay(self._within_s):
                request = await _request(context, health_pb2.HealthCheckRequest)
        except TimeoutError:
            await _refuse_busy(context)
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a message")
        return request


class _Few:
    """Some calls at a time. A further one ends the oldest, which raises TimeoutError there."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._stays: OrderedDict[asyncio.Timeout, None] = OrderedDict()

    @asynccontextmanager
    async def stay(self, within_s: float | None = None) -> AsyncIterator[None]:
        """Count a call while the block runs. Raises TimeoutError when it must end."""
        if len(self._stays) >= self._most:
            oldest, _ = self._stays.popitem(last=False)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
        async with asyncio.timeout(within_s) as stay:
            self._stays[stay] = None
            try:
                yield
            finally:
                self._stays.pop(stay, None)


async def _request(context: Context, kind: Any) -> Any:
    """The next message of a call; None at its end."""
    content = await context.read()
    if content is grpc.aio.EOF:
        return None
    if len(content) > _REQUEST_BYTES_MAX:
        reason = f"a request must have up to {_REQUEST_BYTES_MAX} bytes, got {len(content)}"
        # The call keeps the error, and that keeps this frame.
        del content
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
    try:
        return kind.FromString(content)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is no {kind.DESCRIPTOR.name}")


async def _refuse_busy(context: Context) -> None:
    reason = "the request did not arrive in time, or too many calls without a token are under way"
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{reason}: ask again later")
