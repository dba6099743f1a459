"""The health service of gRPC, which needs no token: it is SERVING while this broker leads.

gRPC reads a whole message, of up to --message-bytes-max, before it hands it over. So this service reads
one message at a time. A call whose message does not come at once gives way to the next call.
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

from bucketq.broker.allowance import Allowance

# A request names a service.
_REQUEST_BYTES_MAX = 4 * 1024
_READING_MAX = 1
_WATCHING_MAX = 100
# An honest caller sends its message together with the header. A busy process may be slow to read it.
_READ_WITHIN_S = 0.5
_WATCH_AT_LEAST_S = 0.05

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class OpenHealth:
    """The health of a server that also has the service `name`."""

    def __init__(self, name: str, allowance: Allowance) -> None:
        self._name = name
        self._within_s = allowance.header_within_s
        self._health = health.aio.HealthServicer()
        self._reading = _Few(_READING_MAX, _READ_WITHIN_S)
        self._watching = _Few(_WATCHING_MAX, _WATCH_AT_LEAST_S)

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        """What a server needs to serve it."""
        in_bytes = health_pb2.HealthCheckResponse.SerializeToString
        check: Any = grpc.stream_unary_rpc_method_handler(self._check, None, in_bytes)
        watch: Any = grpc.stream_stream_rpc_method_handler(self._watch, None, in_bytes)
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check, "Watch": watch})

    async def tell_health(self, is_leading: bool) -> None:
        """Set the health of the service. The process as such is well in either case."""
        statuses = health_pb2.HealthCheckResponse
        await self._health.set(self._name, statuses.SERVING if is_leading else statuses.NOT_SERVING)
        await self._health.set("", statuses.SERVING)

    async def stop(self) -> None:
        """Set the health to NOT_SERVING for good."""
        await self._health.enter_graceful_shutdown()

    async def _check(self, _: object, context: Context) -> Any:
        return await self._health.Check(await self._request(context), context)

    async def _watch(self, _: object, context: Context) -> None:
        request = await self._request(context)
        try:
            async with self._watching.stay():
                await self._health.Watch(request, context)
        except TimeoutError:
            await _refuse_busy(context)

    async def _request(self, context: Context) -> Any:
        content: Any = grpc.aio.EOF
        try:
            async with self._reading.stay(self._within_s):
                content = await context.read()
        except TimeoutError:
            await _refuse_busy(context)
        if content is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a message")
        if (size := len(content)) > _REQUEST_BYTES_MAX:
            # The call keeps the error, and that keeps this frame.
            del content
            reason = f"a request must have up to {_REQUEST_BYTES_MAX} bytes, got {size}"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        try:
            return health_pb2.HealthCheckRequest.FromString(content)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no HealthCheckRequest")


class _Few:
    """Some calls at a time. One more ends the oldest that has had its time: that raises TimeoutError."""

    def __init__(self, most: int, at_least_s: float) -> None:
        self._free = asyncio.Semaphore(most)
        self._at_least_s = at_least_s
        # When each began, oldest first.
        self._stays: OrderedDict[asyncio.Timeout, float] = OrderedDict()

    @asynccontextmanager
    async def stay(self, within_s: float | None = None) -> AsyncIterator[None]:
        """Count a call while the block runs. Raises TimeoutError when it must end."""
        await self._take_place()
        async with asyncio.timeout(within_s) as stay:
            self._stays[stay] = asyncio.get_running_loop().time()
            try:
                yield
            finally:
                if stay in self._stays:
                    del self._stays[stay]
                    self._free.release()

    async def _take_place(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._at_least_s):
                    await self._free.acquire()
                return
            except TimeoutError:
                now_s = asyncio.get_running_loop().time()
                oldest, began_s = next(iter(self._stays.items()), (None, now_s))
                # The oldest call leaves its place to this one.
                if oldest is not None and now_s - began_s >= self._at_least_s:
                    del self._stays[oldest]
                    if not oldest.expired():
                        oldest.reschedule(now_s)
                    return


async def _refuse_busy(context: Context) -> None:
    reason = "the request did not arrive in time, or too many calls without a token are under way"
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{reason}: ask again later")
