"""WsConnection: a WebSocket connection with the same limits as any other.

It is sent no more pongs than it reads, holds no more than its share of the memory, and gets no
traceback written for what it sends.
"""

import asyncio
from typing import Any, cast

from uvicorn import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from bucketq.broker.crowd import Crowd
from bucketq.broker.holdings import arriving
from bucketq.broker.outflow import Outflow

# In the state of the ASGI scope: a function that sets how many bytes a message may have.
LIMIT_MESSAGES = "limit_messages"
# And one that returns once the peer has read what was sent to it, or is gone.
DRAINED = "drained"

_NOT_UTF8 = 1007
_TRY_AGAIN_LATER = 1013


class WsConnection(WebSocketsSansIOProtocol):
    """What uvicorn makes of a connection that asks for a WebSocket."""

    def __init__(self, config: Config, server_state: Crowd, app_state: dict[str, Any]) -> None:
        own = {LIMIT_MESSAGES: self._limit_messages, DRAINED: lambda: self._outflow.drained.wait()}
        super().__init__(config, server_state, {**app_state, **own})
        self._crowd = server_state
        self._held_bytes = 0
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # It is that of the HTTP connection which became this one.
        self._outflow = cast(Outflow, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_held()
        self._outflow.lost()
        self._let_flow()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if not self._crowd.holdings.count(arriving(self._outflow.owner), len(data)):
            self._fail(_TRY_AGAIN_LATER, "too much is being sent at once")
        elif not self.transport.is_closing():
            super().data_received(data)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self._fail(_NOT_UTF8, "text is UTF-8")
        else:
            super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # A refusal completes the handshake too. Without this uvicorn writes an error to the log.
            self.handshake_complete = True

    async def receive(self) -> Any:
        message = await super().receive()
        self._drop_held()
        return message

    def pause_writing(self) -> None:
        super().pause_writing()
        self._outflow.pause()
        # Else each ping of somebody who does not read adds a pong to what is kept for them.
        self.transport.pause_reading()
        self._stalled = self.loop.call_later(self._crowd.allowance.body_within_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._let_flow()
        if not self._outflow.resume():
            return
        if not self.read_paused:
            self.transport.resume_reading()
        super().resume_writing()

    def _limit_messages(self, bytes_max: int) -> None:
        self.conn.max_message_size = bytes_max

    def _fail(self, code: int, reason: str) -> None:
        if self.conn.state is State.OPEN:
            self.conn.fail(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def _let_flow(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()

    def _drop_held(self) -> None:
        self._crowd.holdings.count(arriving(self._outflow.owner), -self._held_bytes)
        self._held_bytes = 0


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
