"""Outflow: a transport that sends what is written to it piece by piece, and counts what waits.

A transport of asyncio takes whatever is written, and keeps what its peer does not read. Here it gets the
next piece once it has room. So `resume_writing` comes with every piece, and a slow reader differs from one
that has stopped. Only the interface of asyncio is used: a protocol gets it by `connection_made`.
"""

import asyncio
import socket
from collections import deque
from typing import Any

from bucketq.broker.holdings import Holdings

_PIECE_BYTES = 32 * 1024
# In the system's own buffer: what a fast network takes in 2 ms.
_UNSENT_BYTES_MAX = 256 * 1024


class Outflow:
    """What one connection has written. Its protocol passes `pause_writing` and `resume_writing` on to it."""

    def __init__(self, transport: asyncio.Transport, holdings: Holdings) -> None:
        self._transport = transport
        self._holdings = holdings
        # The same as in the scope of its requests.
        self.owner = tuple((transport.get_extra_info("peername") or ())[:2])
        self._waiting: deque[memoryview] = deque()
        self._is_paused = self._is_closing = False
        self.drained = asyncio.Event()
        self.drained.set()
        # With TLS asyncio would keep 512 KiB.
        transport.set_write_buffer_limits(_PIECE_BYTES)
        # Else the system takes megabytes, and what a slow client reads of them is not seen.
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            line = transport.get_extra_info("socket")
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES_MAX)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes as soon as the peer has read those before."""
        if self._is_closing or self._transport.is_closing():
            return
        if len(data) <= _PIECE_BYTES and self.drained.is_set():
            self._transport.write(data)
            return
        self._waiting.append(memoryview(data))
        self._holdings.count(self.owner, len(data))
        self._flow()

    def pause(self) -> None:
        """Send no more: the transport has enough."""
        self._is_paused = True
        self.drained.clear()

    def resume(self) -> bool:
        """Send more. Return whether all of it was sent, and there is room for the next."""
        self._is_paused = False
        self._flow()
        if not self._is_paused:
            self.drained.set()
        return not self._is_paused

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Close once all is sent."""
        self._is_closing = True
        self._flow()

    def lost(self) -> None:
        """The connection is gone, with what was to be sent."""
        while self._waiting:
            self._holdings.count(self.owner, -len(self._waiting.popleft()))
        self.drained.set()

    def _flow(self) -> None:
        while self._waiting and not self._is_paused:
            data = self._waiting.popleft()
            if len(data) > _PIECE_BYTES:
                self._waiting.appendleft(data[_PIECE_BYTES:])
            piece = data[:_PIECE_BYTES]
            self._transport.write(piece)
            self._holdings.count(self.owner, -len(piece))
        if self._is_closing and not self._waiting:
            self._transport.close()
