"""Cutting: ends connections of gRPC whose client does not read.

gRPC for asyncio can neither reset a stream nor close a connection, and keeps an answer for as long as its
stream exists. So the socket is shut down, which ends all streams of the connection.
"""

import asyncio
import logging
import os
import socket
from contextlib import suppress

log = logging.getLogger("bucketq")

# All that have stalled within this time are found by one look at the open files.
_TOGETHER_S = 0.2
# Of this process, in Linux and in macOS.
_OPEN_FILES = "/dev/fd"


class Cutting:
    """Ends connections to one port, by the addresses of their clients."""

    def __init__(self) -> None:
        self.port = 0
        self._stalled: set[tuple[str, int]] = set()

    def end(self, host: str, port: int) -> None:
        """End the connection from this address soon."""
        if not self._stalled:
            asyncio.get_running_loop().call_later(_TOGETHER_S, self._end_all)
        if (host, port) not in self._stalled:
            self._stalled.add((host, port))
            log.info("a connection by gRPC ends: its client does not read", extra={"peer": host})

    def _end_all(self) -> None:
        stalled, self._stalled = self._stalled, set()
        for name in os.listdir(_OPEN_FILES):
            # A file may be no connection, or be closed by now.
            with suppress(OSError, ValueError):
                self._end_if_stalled(os.dup(int(name)), stalled)

    def _end_if_stalled(self, fd: int, stalled: set[tuple[str, int]]) -> None:
        try:
            line = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            raise
        with line:
            host, port = line.getpeername()[:2]
            # A socket for both versions of IP spells an address of IPv4 so.
            if line.getsockname()[1] == self.port and (host.removeprefix("::ffff:"), port) in stalled:
                line.shutdown(socket.SHUT_RDWR)
