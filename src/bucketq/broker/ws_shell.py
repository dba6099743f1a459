"""The WebSocket shell of a broker: many calls on one connection, answered as they are done.

    {"id": 1, "method": "claimJob", …} ──▶ ┐             ┌ {"id": 2, "ok": true, "result": …}
    {"id": 2, "method": "getStats", …} ──▶ ├─ /v1/ws ────┤
    {"id": 3, "method": "nonsense"}    ──▶ ┘             └ {"id": 3, "ok": false, "error": …}

Text is JSON: the calls of `bucketq.broker.calls`. Binary messages are Frames of
proto/bucketq/v1/queue.proto, for clients in Python. What is malformed gets an error and harms
nobody else. When the connection goes, its calls are cancelled, and what they claimed is given back.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, closing, suppress
from functools import partial
from typing import Any

import msgspec
from fastapi import WebSocket, WebSocketDisconnect
from google.protobuf.message import DecodeError

from bucketq.broker.access import Caller, Role
from bucketq.broker.calls import CALLS, Visit
from bucketq.broker.crowd import Crowd
from bucketq.broker.door import Door
from bucketq.broker.holdings import Hold, answered, arriving
from bucketq.broker.problem import Problem
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from bucketq.broker.ws_connection import DRAINED, LIMIT_MESSAGES
from bucketq.errors import (
    BrokerProtocolError,
    BucketQError,
    ConfigurationError,
    OutcomeUnknownError,
    TooManyRequestsError,
)
from bucketq.jobline import UNREADABLE
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import http_refusal_message

log = logging.getLogger("bucketq")

# Whoever has more under way is not read from until some are answered. While it is not, nobody sees
# whether it is still there, so that must not take long; pings are to be answered within 20 s.
CALLS_MAX = 1000
ROOM_WITHIN_S = 15.0
# Browsers cannot send the header with a token, so it may come as the first call.
AUTHENTICATE = "authenticate"
AUTHENTICATE_WITHIN_S = 10.0
_STRANGER_BYTES_MAX = 16 * 1024

_POLICY_VIOLATION = 1008
_TRY_AGAIN_LATER = 1013


class WsShell:
    """Serves WebSockets. Who calls is looked at anew with each call: a token may be revoked."""

    def __init__(self, service: Service, rpc: Rpc, door: Door, crowd: Crowd) -> None:
        self.service = service
        self.rpc = rpc
        self.door = door
        self.crowd = crowd
        self.connections = 0

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection until it is closed."""
        await socket.accept()
        self.connections += 1
        try:
            await _Conversation(self, socket).run()
        finally:
            self.connections -= 1


class _Asked(msgspec.Struct):
    """A call in JSON."""

    id: str | int
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Numbered(msgspec.Struct):
    """What is left of a call that is malformed."""

    id: str | int | None = None


class _Authenticate(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class _Result(msgspec.Struct, kw_only=True):
    id: str | int
    ok: bool = True
    result: Any


class _Error(msgspec.Struct, kw_only=True):
    id: str | int | None
    ok: bool = False
    error: Problem


class _Conversation:
    """What is said on one connection, whoever is at its other end, and their calls under way."""

    def __init__(self, shell: WsShell, socket: WebSocket) -> None:
        self._shell = shell
        self._socket = socket
        self._owner = socket.scope.get("client")
        self._peer = socket.client.host if socket.client else ""
        self._authorization = socket.headers.get("authorization")
        # A stranger is read one short message at a time, until it authenticates.
        self._is_stranger = not shell.door.knows(self._authorization)
        self._slots = asyncio.Semaphore(1 if self._is_stranger else CALLS_MAX)
        if self._is_stranger:
            self._limit_messages(_STRANGER_BYTES_MAX)
        self._calls: set[asyncio.Task[None]] = set()
        # Those that came in Frames, by their numbers.
        self._frames: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            within_s = AUTHENTICATE_WITHIN_S if self._is_stranger else None
            async with asyncio.timeout(within_s) as self._strangers_time:
                await self._read()
        except TimeoutError:
            await self._close(_POLICY_VIOLATION, f"no valid token came within {AUTHENTICATE_WITHIN_S:g} s")
        except TooManyRequestsError as error:
            await self._close(_TRY_AGAIN_LATER, str(error))
        finally:
            for call in self._calls:
                call.cancel()
            if self._calls:
                await asyncio.wait(self._calls)

    def _limit_messages(self, bytes_max: int) -> None:
        self._socket.scope["state"][LIMIT_MESSAGES](bytes_max)

    def _visit(self, role: Role, method: str) -> AbstractAsyncContextManager[Caller]:
        return self._shell.door.visit(self._authorization, self._peer, role, "ws", method)

    async def _read(self) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            if (content := message.get("bytes")) is None:
                await self._begin(self._answer_json(message["text"]), len(message["text"]))
                continue
            try:
                frame = pb.Frame.FromString(content)
            except DecodeError as error:
                await self._refuse_frame(0, ConfigurationError(f"this is no Frame: {error}"))
                continue
            if frame.method:
                call = self._frames[frame.id] = await self._begin(self._answer_frame(frame), len(content))
                # Not by the call itself: it may be cancelled before it has begun.
                call.add_done_callback(partial(self._forget, frame.id))
            elif frame.id in self._frames:
                self._frames[frame.id].cancel()

    async def _begin(self, answering: Coroutine[Any, Any, None], size: int) -> "asyncio.Task[None]":
        # What was asked is in memory until it is answered.
        has_room = self._shell.crowd.holdings.count(arriving(self._owner), size)
        try:
            if not has_room:
                raise TooManyRequestsError("too much is being sent at once")
            # No work begins for a client that does not read. One that goes on so is cut off.
            await self._socket.scope["state"][DRAINED]()
            async with asyncio.timeout(ROOM_WITHIN_S):
                await self._slots.acquire()
        except BaseException as error:
            self._drop(size)
            answering.close()
            if isinstance(error, TimeoutError):
                raise TooManyRequestsError(f"{CALLS_MAX} calls wait on this connection already") from error
            raise
        call = asyncio.create_task(answering)
        self._calls.add(call)
        call.add_done_callback(partial(self._end, size))
        return call

    def _end(self, size: int, call: "asyncio.Task[None]") -> None:
        self._calls.discard(call)
        self._slots.release()
        self._drop(size)

    def _drop(self, size: int) -> None:
        self._shell.crowd.holdings.count(arriving(self._owner), -size)

    def _forget(self, number: int, call: "asyncio.Task[None]") -> None:
        self._frames.pop(number, None)

    async def _answer_frame(self, frame: pb.Frame) -> None:
        with closing(Hold(self._shell.crowd.holdings, self._owner)):
            try:
                async with self._visit(Role.VIEWER, self._shell.rpc.known(frame.method)) as caller:
                    body = await self._shell.rpc.call(frame.method, frame.body, caller)
                answer = pb.Frame(id=frame.id, body=body).SerializeToString()
                del body
            except Exception as error:
                await self._refuse_frame(frame.id, _told(error))
            else:
                await self._send(answer)

    async def _refuse_frame(self, number: int, error: BucketQError) -> None:
        await self._send(pb.Frame(id=number, refusal=http_refusal_message(error)).SerializeToString())

    async def _answer_json(self, text: str) -> None:
        with closing(Hold(self._shell.crowd.holdings, self._owner)):
            try:
                asked = _decoded(text)
                call = CALLS.get(asked.method)

                async def produce() -> str:
                    result = _Result(id=asked.id, result=await self._perform(asked))
                    return msgspec.json.encode(result).decode()

                is_repeatable = call is not None and call.role is Role.VIEWER
                answer = await answered(produce, is_repeatable=is_repeatable)
            except Exception as error:
                refusal = _Error(id=_id_in(text), error=Problem.of(_told(error)))
                answer = msgspec.json.encode(refusal).decode()
            await self._send(answer)

    async def _perform(self, asked: _Asked) -> Any:
        if asked.method == AUTHENTICATE:
            return self._authenticate(bytes(asked.params))
        call = CALLS.get(asked.method)
        if call is None:
            known = ", ".join([AUTHENTICATE, *CALLS])
            raise BrokerProtocolError(f"there is no method {asked.method!r}; there are {known}")
        async with self._visit(call.role, call.name) as caller:
            return await call.answer(Visit(self._shell.service, caller), call.decode(bytes(asked.params)))

    def _authenticate(self, params: bytes) -> dict[str, Any]:
        try:
            token = msgspec.json.decode(params, type=_Authenticate).token
        except UNREADABLE as error:
            raise BrokerProtocolError(f"{AUTHENTICATE} does not take this: {error}") from error
        authorization = f"Bearer {token}"
        caller = self._shell.door.admit(authorization, self._peer)
        self._authorization = authorization
        if self._is_stranger:
            self._is_stranger = False
            self._strangers_time.reschedule(None)
            self._limit_messages(self._shell.crowd.allowance.message_bytes_max)
            for _ in range(CALLS_MAX - 1):
                self._slots.release()
        return {"roles": sorted(caller.roles)}

    async def _send(self, message: str | bytes) -> None:
        # Whoever is gone gets no answer; the next that is read says that they are.
        with suppress(WebSocketDisconnect, RuntimeError):
            if isinstance(message, str):
                await self._socket.send_text(message)
            else:
                await self._socket.send_bytes(message)

    async def _close(self, code: int, reason: str) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(code, reason)


def _decoded(text: str) -> _Asked:
    try:
        return msgspec.json.decode(text, type=_Asked)
    except UNREADABLE as error:
        raise BrokerProtocolError(
            f'a call is {{"id": …, "method": "…", "params": {{…}}}}: {error}'
        ) from error


def _id_in(text: str) -> str | int | None:
    """The id of a call that may be malformed otherwise."""
    try:
        return msgspec.json.decode(text, type=_Numbered).id
    except UNREADABLE:
        return None


def _told(error: Exception) -> BucketQError:
    """The error to tell. What nobody has foreseen is for the log."""
    if isinstance(error, BucketQError):
        return error
    log.error("a call by WebSocket failed", exc_info=error)
    return OutcomeUnknownError("the broker failed at this, and its log says why; look before repeating it")
