"""WsBrokers: the way to brokers by WebSocket: many calls, one connection.

    batch ──Frame 1──▶ ┐                        ┌ Frame 2 ──▶ wait
    wait  ──Frame 2──▶ ├──── one WebSocket ─────┤
    batch ──Frame 3──▶ ┘                        └ Frame 1 ──▶ batch

Answers come as they are ready. What is long, objects and messages above a size, goes by HTTP to
the same address: it would hold up the others.
"""

import asyncio
import itertools
import logging
from collections import defaultdict
from contextlib import suppress

import aiohttp
from google.protobuf.message import Message

from bucketq.remote.brokers import UnreachableError
from bucketq.remote.http_brokers import HttpBrokers, refused_with
from bucketq.remote.message_brokers import M, understanding
from bucketq.tls import Tls
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import error_of

log = logging.getLogger("bucketq")

_CONNECT_WITHIN_S = 3.0
_CLOSE_WITHIN_S = 1.0
# After so much silence a broker is asked whether it lives; it has half of it to answer.
_HEARTBEAT_S = 8.0
_MESSAGE_BYTES_MAX = 1024 * 1024
# With more a broker would read no further until some are answered, not even whether somebody lives.
_CALLS_MAX = 500


class WsBrokers(HttpBrokers):
    """One connection to each broker that is asked, and another one when that is full."""

    def __init__(self, token: str | None = None, tls: Tls | None = None) -> None:
        super().__init__(token, tls)
        self._lines: defaultdict[str, list[_Line]] = defaultdict(list)
        self._connecting: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        await asyncio.gather(*(line.close() for lines in self._lines.values() for line in lines))
        await super().close()

    async def _ask(self, address: str, method: str, request: Message, response: type[M]) -> M:
        if request.ByteSize() > _MESSAGE_BYTES_MAX:
            return await super()._ask(address, method, request, response)
        line = await self._line(address)
        content = await line.call(method, request.SerializeToString())
        with understanding(address):
            return response.FromString(content)

    async def _line(self, address: str) -> "_Line":
        """A connection with room for one more call. All who need a new one wait for the same."""
        while True:
            for line in self._lines[address]:
                if line.has_room:
                    return line
            connecting = self._connecting.get(address)
            if connecting is None:
                connecting = self._connecting[address] = asyncio.create_task(self._connect(address))
            await asyncio.shield(connecting)

    async def _connect(self, address: str) -> None:
        try:
            with self._told_errors(address):
                async with asyncio.timeout(_CONNECT_WITHIN_S):
                    socket = await self._handshake(address)
        except UnreachableError as error:
            raise UnreachableError(str(error), was_sent=False) from error
        finally:
            del self._connecting[address]
        lines = [line for line in self._lines[address] if line.is_open]
        self._lines[address] = [*lines, _Line(address, socket)]

    async def _handshake(self, address: str) -> aiohttp.ClientWebSocketResponse:
        try:
            return await self._session.ws_connect(
                self._url(address, "/v1/ws"),
                max_msg_size=0,
                heartbeat=_HEARTBEAT_S,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_WITHIN_S),
            )
        except aiohttp.WSServerHandshakeError as error:
            media = error.headers.get("Content-Type", "nothing") if error.headers else "nothing"
            # The cause has the header with the token.
            raise refused_with(address, error.status, media) from None


class _Line:
    """One connection, and the calls that wait for their answers on it."""

    def __init__(self, address: str, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._address = address
        self._socket = socket
        # An error is a result, too: nobody may be left to see it raised.
        self._calls: dict[int, asyncio.Future[bytes | Exception]] = {}
        self._numbers = itertools.count(1)
        self._cancelling: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read(), name="bucketq websocket")

    @property
    def is_open(self) -> bool:
        """Whether something may be asked on it."""
        return not (self._reading.done() or self._socket.closed)

    @property
    def has_room(self) -> bool:
        """Whether one more call may be made."""
        return self.is_open and len(self._calls) < _CALLS_MAX

    async def call(self, method: str, body: bytes) -> bytes:
        """Call a method. Raises what the broker refused with, and UnreachableError."""
        number = next(self._numbers)
        frame = pb.Frame(id=number, method=method, body=body).SerializeToString()
        answer: asyncio.Future[bytes | Exception] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            await self._socket.send_bytes(frame)
            told = await answer
        except (aiohttp.ClientError, OSError) as error:
            raise self._gone() from error
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            del self._calls[number]
        if isinstance(told, Exception):
            raise told
        return told

    async def close(self) -> None:
        """Let go of the connection."""
        self._reading.cancel()
        await asyncio.wait([self._reading, *self._cancelling])

    def _cancel(self, number: int) -> None:
        """Tell the broker that nobody waits for an answer any more: it may hold something for the caller."""
        if self.is_open:
            task = asyncio.create_task(self._send_cancel(number))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    async def _send_cancel(self, number: int) -> None:
        with suppress(aiohttp.ClientError, OSError):
            await self._socket.send_bytes(pb.Frame(id=number).SerializeToString())

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                with understanding(self._address):
                    frame = pb.Frame.FromString(message.data)
                    told = error_of(frame.refusal) if frame.HasField("refusal") else frame.body
                self._answer(frame.id, told)
        except UnreachableError as error:
            log.warning("a WebSocket is given up: %s", error)
        finally:
            for number in self._calls:
                self._answer(number, self._gone())
            await self._socket.close()

    def _answer(self, number: int, told: bytes | Exception) -> None:
        answer = self._calls.get(number)
        if answer is not None and not answer.done():
            answer.set_result(told)

    def _gone(self) -> UnreachableError:
        why = self._socket.exception() or f"closed with {self._socket.close_code}"
        return UnreachableError(f"the connection to {self._address} is gone: {why}", was_sent=True)
