"""The health service of gRPC, which needs no token: it is SERVING while this broker leads.

gRPC holds a whole message, of up to --message-bytes-max, before it hands it over. So this service never reads
a request: the answer is the same for each service that a request may name.
"""

import asyncio
from collections import Counter
from typing import Any, TypeAlias

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2

# One connection, which may be a stranger's, leaves places to others.
_WATCHING_MAX = 1000
_WATCHING_PER_CONNECTION_MAX = 10

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class OpenHealth:
    """The health of a broker."""

    def __init__(self) -> None:
        self._is_leading = self._is_stopped = False
        self._changed = asyncio.Event()
        self._watching: Counter[str] = Counter()

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        """What a server needs to serve it."""
        # A method with a stream of requests looks the same on the wire, and begins before any message came.
        check: Any = grpc.stream_unary_rpc_method_handler(self._check)
        watch: Any = grpc.stream_stream_rpc_method_handler(self._watch)
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check, "Watch": watch})

    def tell_health(self, is_leading: bool) -> None:
        """Set the health, unless the server has stopped."""
        if not self._is_stopped and is_leading != self._is_leading:
            self._is_leading = is_leading
            self._changed.set()
            self._changed = asyncio.Event()

    def stop(self) -> None:
        """Set the health to NOT_SERVING for good."""
        self.tell_health(is_leading=False)
        self._is_stopped = True

    @property
    def _answer(self) -> bytes:
        statuses = health_pb2.HealthCheckResponse
        status = statuses.SERVING if self._is_leading else statuses.NOT_SERVING
        answer: bytes = statuses(status=status).SerializeToString()
        return answer

    async def _check(self, _: object, context: Context) -> bytes:
        return self._answer

    async def _watch(self, _: object, context: Context) -> None:
        # It names the port too: each connection is a peer of its own.
        peer = context.peer()
        most = _WATCHING_PER_CONNECTION_MAX
        if self._watching[peer] >= most or self._watching.total() >= _WATCHING_MAX:
            reason = f"up to {most} calls of one connection, and {_WATCHING_MAX} in all, watch the health"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{reason}: ask by Check")
        self._watching[peer] += 1
        try:
            while True:
                changed = self._changed
                await context.write(self._answer)
                await changed.wait()
        finally:
            self._watching[peer] -= 1
            if not self._watching[peer]:
                del self._watching[peer]
