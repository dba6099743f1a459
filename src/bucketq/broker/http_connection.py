"""HttpConnection: one connection of the HTTP server, which nobody can hold on to for nothing.

    idle ──first byte──▶ header ──complete──▶ body ──complete──▶ answer ──read──▶ idle
      │                    │                   │                   │
      75 s                10 s                60 s, or slower     60 s without progress
      ▼                    ▼                   ▼ than 1 KB/s       ▼
    closed               408                 408                 cut off

At the limit of connections the one that has been without a request for longest gives way to a new
one. If all of them are at work, the new one gets 503.
"""

import asyncio
from typing import Any, cast

import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from bucketq.broker.crowd import Crowd
from bucketq.broker.holdings import arriving
from bucketq.broker.outflow import Outflow
from bucketq.broker.problem import Problem

_HEADER_BYTES_MAX = 32 * 1024
_HEADERS_MAX = 100
# Requests that come before the last one is answered; a header of each is held. Few clients send any.
_PIPELINED_MAX = 1
_BODY_BYTES_PER_S_MIN = 1024
# For how long the rest of a refused body is read: a client that still sends does not see the answer.
_LINGER_S = 2.0
_RETRY = "retry-after: 1\r\n"


class HttpConnection(HttpToolsProtocol):
    """A connection with limits to its time, its header, and its pipeline."""

    def __init__(self, config: Config, crowd: Crowd) -> None:
        super().__init__(config, crowd, {})
        self._crowd = crowd
        self._allowance = crowd.allowance
        # uvicorn has whole seconds, and uses them as any number.
        self.timeout_keep_alive = crowd.allowance.idle_s  # type: ignore[assignment]
        self._is_arriving = self._has_header = False
        # Of the header, or of the body, whichever is arriving.
        self._arrived_bytes = self._new_bytes = 0
        self._held_bytes = 0
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._working: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_room = self._crowd.make_room()
        self._outflow = Outflow(transport, self._crowd.holdings)
        super().connection_made(cast(asyncio.Transport, self._outflow))
        if not has_room:
            self._refuse(503, "Busy", "all connections are at work: try again later", _RETRY)
            return
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._outflow.lost()
        super().connection_lost(exc)
        if self._working is not None:
            # Nobody hears the answer: a job that is claimed now would be lost until its claim is stale.
            self._working.cancel()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._new_bytes = len(data)
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._is_arriving and not self._has_header:
            self._count_header(self._new_bytes)
        if self._is_arriving and self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(self._within_s, self._look_late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_arriving, self._has_header, self._arrived_bytes = True, False, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _HEADERS_MAX or len(name) + len(value) > _HEADER_BYTES_MAX:
            self._refuse_header()
            raise ValueError("too large a header")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _PIPELINED_MAX:
            raise ValueError("too many requests at once")
        self._has_header, self._arrived_bytes, self._new_bytes = True, 0, 0
        self._let_arrive()
        self._crowd.idle.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._arrived_bytes += len(body)
        if self.cycle is not None and not self.cycle.response_complete:
            self._held_bytes += len(body)
            if not self._crowd.holdings.count(arriving(self._outflow.owner), len(body)):
                self._refuse(503, "Busy", "too much is being sent at once: try again later", _RETRY)
                raise ValueError("too much at once")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_arriving = False
        self._let_arrive()
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        self._working = None
        self._drop_held()
        super().on_response_complete()
        if self._is_arriving:
            self._let_arrive()
            self._late = self.loop.call_later(_LINGER_S, self.give_way)
        elif self._working is None:
            self._rest()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._working = self.loop.create_task(cycle.run_asgi(self._until_lost(app)))
        self._working.add_done_callback(self.tasks.discard)
        self.tasks.add(self._working)

    def _until_lost(self, app: Any) -> Any:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                # No work begins for a client that does not read.
                await self._outflow.drained.wait()
                await app(scope, receive, send)
            except asyncio.CancelledError:
                if not self.transport.is_closing():
                    raise

        return run

    def handle_websocket_upgrade(self) -> None:
        self._leave()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._outflow.pause()
        self._stalled = self.loop.call_later(self._allowance.body_within_s, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._stalled)
        if self._outflow.resume():
            super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        if self._outflow.drained.is_set():
            self.give_way()
        else:
            # A slow reader is not idle.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def give_way(self) -> None:
        """Close, whether or not the peer reads what was sent to it."""
        self.transport.close()
        self.loop.call_later(self._allowance.header_within_s, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._refuse(400, "ConfigurationError", "this is no HTTP request that can be understood")

    @property
    def _within_s(self) -> float:
        return self._allowance.body_within_s if self._has_header else self._allowance.header_within_s

    def _count_header(self, size: int) -> None:
        self._arrived_bytes += size
        if self._arrived_bytes > _HEADER_BYTES_MAX:
            self._refuse_header()

    def _refuse_header(self) -> None:
        most = f"{_HEADERS_MAX} headers and {_HEADER_BYTES_MAX} bytes"
        self._refuse(431, "TooLargeError", f"the header of a request has {most} at most")

    def _rest(self) -> None:
        self._crowd.idle[self] = None
        self._crowd.idle.move_to_end(self)
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.give_way)

    def _leave(self) -> None:
        self._crowd.idle.pop(self, None)
        self._drop_held()
        self._unset_keepalive_if_required()
        _cancel(self._late, self._stalled)

    def _drop_held(self) -> None:
        self._crowd.holdings.count(arriving(self._outflow.owner), -self._held_bytes)
        self._held_bytes = 0

    def _let_arrive(self) -> None:
        _cancel(self._late)
        self._late = None

    def _look_late(self) -> None:
        is_fast = self._has_header and self._arrived_bytes >= self._within_s * _BODY_BYTES_PER_S_MIN
        # If it is this side that does not read, the peer is not slow.
        if is_fast or self.flow.read_paused:
            self._arrived_bytes = 0
            self._late = self.loop.call_later(self._within_s, self._look_late)
        else:
            what = "body" if self._has_header else "header"
            self._refuse(408, "TimeoutError", f"the {what} did not arrive within {self._within_s:g} s")

    def _refuse(self, status: int, tag: str, message: str, more: str = "") -> None:
        # In the middle of another answer this one would be taken for a part of it.
        if not self.pipeline and (self.cycle is None or self._is_unanswered):
            content = msgspec.json.encode(Problem(tag, message))
            head = (
                f"content-type: application/json\r\nconnection: close\r\n{more}content-length: {len(content)}"
            )
            self.transport.write(STATUS_LINE[status] + head.encode() + b"\r\n\r\n" + content)
        self.give_way()

    @property
    def _is_unanswered(self) -> bool:
        return self.cycle.response_complete or (self._has_header and not self.cycle.response_started)


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
