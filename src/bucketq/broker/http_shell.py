"""The HTTP shell of a broker: REST for everybody, and the messages of gRPC for clients in Python.

/v1/jobs …            JSON: the calls of `bucketq.broker.calls`
/v1/events            the queue's numbers as they change
/openapi.json         a description of all that
/v1/rpc/{method}      protobuf: the methods of proto/bucketq/v1/queue.proto, by POST
/v1/ws                WebSocket: the same in messages, see `ws_shell`
/v1/objects/{name}    the objects beside the queue, as they are
/metrics              numbers for Prometheus
/dashboard            pages for people, if they are asked for: see `bucketq.dashboard`
/healthz, /readyz     is the process well; does it lead
"""

import logging
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, suppress
from io import BytesIO
from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bucketq.broker.access import Caller, Role
from bucketq.broker.allowance import Allowance
from bucketq.broker.calls import CALLS, Call, Visit
from bucketq.broker.calls.call import decode_query
from bucketq.broker.crowd import Crowd
from bucketq.broker.door import Door
from bucketq.broker.events import WatchEvents, events
from bucketq.broker.holdings import Holdings
from bucketq.broker.http_server import HttpServer
from bucketq.broker.metrics import CONTENT_TYPE, Metrics
from bucketq.broker.openapi import openapi
from bucketq.broker.place import JSON, Endpoint, Place, headers_of, refusal, refuse
from bucketq.broker.problem import status_of
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from bucketq.broker.site import Site
from bucketq.broker.ws_shell import WsShell
from bucketq.errors import (
    BucketQError,
    TooLargeError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from bucketq.tls import Tls
from bucketq.trace_context import TraceContext
from bucketq.wire import BYTES, PROTOBUF, http_refusal_message

log = logging.getLogger("bucketq")


class Pages(Protocol):
    """Pages for people: an ASGI application that knows which paths are its own."""

    def is_at(self, path: str) -> bool:
        """Whether this path is one of its own."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        ...


class HttpShell:
    """An HTTP server for a service."""

    def __init__(
        self,
        service: Service,
        rpc: Rpc,
        door: Door,
        allowance: Allowance,
        metrics: Metrics,
        origins: Collection[str] = (),
        holdings: Holdings | None = None,
    ) -> None:
        self._service = service
        self._rpc = rpc
        self._door = door
        self._allowance = allowance
        self._metrics = metrics
        self._origins = origins
        self._crowd = Crowd(allowance, holdings)
        self._ws_shell = WsShell(service, rpc, door, self._crowd)
        self.places = self._new_places()
        self._plain = {path: place for path, place in self.places.items() if "{" not in path}
        self.app = self._new_app()
        self._server: HttpServer | None = None
        # What else is served here, below its own path: the dashboard, if it is asked for.
        self.pages: Pages | None = None

    async def start(
        self, host: str, port: int, names: Collection[str] | None = None, tls: Tls | None = None
    ) -> int:
        """Listen; return the port, which is a free one if 0 was given. Raises ConfigurationError.

        `names` are those that it answers to, besides addresses; None is any.
        """
        self._metrics.connections("http").set_function(lambda: len(self._crowd.connections))
        self._metrics.connections("ws").set_function(lambda: self._ws_shell.connections)
        self._server = HttpServer(Site(self._answer, self._origins, names), self._crowd)
        return await self._server.start(host, port, tls)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way some time."""
        if self._server is not None:
            await self._server.stop(grace_s)

    def _new_app(self) -> FastAPI:
        # /metrics tells of the requests; looking for OpenTelemetry with each of them costs more than routing.
        quiet: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
        app = FastAPI(openapi_url=None, redirect_slashes=False, telemetry=quiet)
        app.add_exception_handler(HTTPException, refuse)
        for path, place in self.places.items():
            app.router.routes.append(Route(path, place))
        app.add_api_websocket_route("/v1/ws", self._ws_shell.serve)
        return app

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The layers of FastAPI cost as much as adding a job does; plain paths need none of them.
        place = self._plain.get(scope["path"]) if scope["type"] == "http" else None
        if place is not None:
            await place(scope, receive, send)
        elif self.pages is not None and self.pages.is_at(scope["path"]):
            await self.pages(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _new_places(self) -> dict[str, Place]:
        endpoints: list[tuple[str, str, Endpoint]] = [
            *((call.method, call.path, self._endpoint(call)) for call in CALLS.values()),
            ("GET", "/v1/events", self._watch_events),
            ("POST", "/v1/rpc/{method}", self._call_rpc),
            ("GET", "/v1/objects/{name:path}", self._read_object),
            ("PUT", "/v1/objects/{name:path}", self._create_object),
            ("GET", "/metrics", self._tell_metrics),
            ("GET", "/healthz", self._health),
            ("GET", "/readyz", self._ready),
            ("GET", "/openapi.json", self._describe),
        ]
        places: defaultdict[str, Place] = defaultdict(lambda: Place(self._crowd.holdings))
        # Plain paths come first: /v1/jobs/claim is no job.
        for method, path, endpoint in sorted(endpoints, key=lambda one: "{" in one[1]):
            places[path].endpoints[method] = endpoint
        return dict(places)

    def _endpoint(self, call: Call) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                async with self._visit(request, call.role, call.name) as caller:
                    # A query may be asked twice: see `answered`. Its body is not read.
                    most = self._allowance.message_bytes_max
                    body = b"" if call.is_by_query else await _body(request, most)
                    asked = call.decode_rest(request.path_params, request.query_params, body)
                    told = await call.answer(Visit(self._service, caller), asked)
            except BucketQError as error:
                return refusal(error)
            if told is None:
                return Response(status_code=204)
            if isinstance(told, bytes):
                return Response(told, media_type=BYTES)
            return Response(msgspec.json.encode(told), media_type=JSON)

        return endpoint

    async def _watch_events(self, request: Request) -> Response:
        try:
            async with self._visit(request, Role.VIEWER, "watchEvents") as caller:
                asked = decode_query(WatchEvents, request.query_params)
                self._service.broker.check_leading()
                with self._service.wait(caller, math.inf):
                    pass  # there is room for one more
        except BucketQError as error:
            return refusal(error)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._events(request, asked), media_type="text/event-stream")

    async def _events(self, request: Request, asked: WatchEvents) -> AsyncIterator[bytes]:
        # Whoever's token ends hears no more.
        with suppress(UnauthenticatedError, TooManyRequestsError):
            # Of no trace: a stream may be ended elsewhere than it began, which no span's context bears.
            async with self._visit(request, Role.VIEWER, "streamEvents", is_traced=False) as caller:
                with self._service.wait(caller, math.inf):
                    async for event in events(self._service, asked):
                        yield event

    async def _call_rpc(self, request: Request) -> Response:
        try:
            method = request.path_params["method"]
            async with self._visit(request, Role.VIEWER, self._rpc.known(method)) as caller:
                content = await _body(request, self._allowance.message_bytes_max)
                answer = await self._rpc.call(method, content, caller)
        except BucketQError as error:
            return _rpc_refusal(error)
        return Response(answer, media_type=PROTOBUF)

    async def _read_object(self, request: Request) -> Response:
        try:
            async with self._visit(request, Role.VIEWER, "ReadObject") as caller:
                content = await self._service.read_object(request.path_params["name"], caller)
        except BucketQError as error:
            return _rpc_refusal(error)
        return Response(content, media_type=BYTES)

    async def _create_object(self, request: Request) -> Response:
        try:
            async with self._visit(request, Role.VIEWER, "CreateObject") as caller:
                caller.need_to_create()
                content = await _body(request, self._service.object_bytes_max)
                await self._service.create_object(request.path_params["name"], content)
        except BucketQError as error:
            return _rpc_refusal(error)
        return Response(status_code=204)

    async def _tell_metrics(self, request: Request) -> Response:
        try:
            async with self._visit(request, Role.VIEWER, "metrics"):
                return Response(self._metrics.text(), media_type=CONTENT_TYPE)
        except BucketQError as error:
            return refusal(error)

    async def _describe(self, request: Request) -> Response:
        return Response(msgspec.json.encode(openapi()), media_type=JSON)

    async def _health(self, request: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def _ready(self, request: Request) -> Response:
        if self._service.broker.is_leading:
            return Response(b'{"status":"leading"}', media_type=JSON)
        return Response(b'{"status":"waiting"}', status_code=503, media_type=JSON)

    def _visit(
        self, request: Request, role: Role, method: str, *, is_traced: bool = True
    ) -> AbstractAsyncContextManager[Caller]:
        peer = request.client.host if request.client else ""
        headers = request.headers
        sent = TraceContext.of(headers.get("traceparent"), headers.get("tracestate")) if is_traced else None
        return self._door.visit(headers.get("authorization"), peer, role, "http", method, sent)


async def _body(request: Request, limit: int) -> bytes:
    # In a buffer, so that it is never in memory twice.
    content, size = BytesIO(), int(request.headers.get("content-length", 0))
    if size <= limit:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                break
            content.write(piece)
    if size > limit:
        raise TooLargeError(f"a message has {limit} bytes at most")
    return content.getvalue()


def _rpc_refusal(error: BucketQError) -> Response:
    content = http_refusal_message(error).SerializeToString()
    return Response(content, status_of(error), headers_of(error), PROTOBUF)
