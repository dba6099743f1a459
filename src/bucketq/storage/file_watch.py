"""FileWatch: tells when a file may have been replaced.

    another process ── rename ──▶ kernel ── inotify ──▶ event loop ──▶ whoever waits looks at the stamp

No thread, and nothing to do while nothing happens. Where there is no inotify (macOS), or no more
of it to be had, the file's stamp is looked at every few milliseconds instead.
"""

import asyncio
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

_STEP_S = 0.01
_READ_BYTES = 64 * 1024
# From <sys/inotify.h>.
_IN_MOVED_TO = 0x80
_IN_ONLYDIR = 0x01000000

log = logging.getLogger("bucketq")


class FileWatch:
    """Watches one file, for any number of tasks of one event loop at a time.

    `etag` tells the file's present etag. Closing the kernel's watch takes some milliseconds, so it
    is kept until `close`.
    """

    def __init__(self, path: Path, etag: Callable[[], str | None]) -> None:
        self._path = path
        self._etag = etag
        self._fd: int | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    def has_changed(self, etag: str | None) -> bool:
        return self._etag() != etag

    async def changed(self, etag: str | None) -> None:
        # Before the first look: what happens after that look is told.
        is_told = self._ask_to_be_told()
        while not self.has_changed(etag):
            await (self._event() if is_told else asyncio.sleep(_STEP_S))

    def close(self) -> None:
        """Let go of the kernel's watch; whoever waits is not told any more."""
        fd, self._fd = self._fd, None
        if fd is not None:
            for waiter in self._waiting:
                waiter.get_loop().remove_reader(fd)
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _ask_to_be_told(self) -> bool:
        """Have renames in the file's folder told; False if that cannot be had."""
        if sys.platform != "linux":
            return False
        try:
            if self._fd is None:
                self._fd = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            # The folder, since a rename puts another file in the place of the one that was watched. Each
            # time anew, which costs little: the folder may be another one by now.
            folder = os.fsencode(self._path.parent)
            _checked(_libc().inotify_add_watch(self._fd, folder, _IN_MOVED_TO | _IN_ONLYDIR))
        except OSError as error:
            log.debug("%s is looked at again and again: %s", self._path, error)
            return False
        return True

    async def _event(self) -> None:
        assert self._fd is not None
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._fd, self._tell)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            if not self._waiting and self._fd is not None:
                loop.remove_reader(self._fd)

    def _tell(self) -> None:
        assert self._fd is not None
        # What has happened is seen by the stamp.
        with suppress(BlockingIOError):
            while os.read(self._fd, _READ_BYTES):
                pass
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
