"""TokenFile: the file that tokens are in, for those who change it and for brokers that follow it.

    bucketq token new, revoke ──▶ file ──▶ a look every half second ──▶ the broker's door

What is half written is not taken for the whole: a change counts when the file has stood still from one
look to the next. A file that is gone, or that cannot be read, changes nothing: nobody shall come in, or
be shut out, by a mistake in an editor.
"""

import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from bucketq.broker.tokens import Token, Tokens
from bucketq.errors import ConfigurationError

log = logging.getLogger("bucketq")

# With two looks a change has come into effect within about a second.
LOOK_EVERY_S = 0.5
# A change takes about a millisecond.
_LOCK_WAIT_S = 5.0
_LOCK_POLL_S = 0.005

_Signature = tuple[int, int, int] | None


class TokenFile:
    """A file of tokens."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._read: _Signature = None
        self._seen: _Signature = None

    def read(self) -> Tokens:
        """All tokens. Raises ConfigurationError."""
        self._read = self._seen = self._signature()
        try:
            text = self._path.read_text()
            mode = self._path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the tokens in {self._path} cannot be read: {error}") from error
        # That others read it does no harm: there are only hashes in it.
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            log.warning("others may write to %s, and so give themselves any role: chmod go-w it", self._path)
        return Tokens.parse(text, str(self._path))

    def look(self) -> Tokens | None:
        """All tokens, if they have changed since they were last read. Raises ConfigurationError, once."""
        last, self._seen = self._seen, self._signature()
        return self.read() if self._seen == last != self._read else None

    def add(self, token: Token) -> None:
        """Add a token; a file that is made for it is its owner's alone. Raises ConfigurationError."""

        def added(lines: list[str]) -> list[str]:
            if token.name in self._names(lines):
                raise ConfigurationError(
                    f"there is a token {token.name!r} in {self._path} already: take another name, or"
                    " revoke it"
                )
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            return [*lines, f"{token.line}\n"]

        self._change(added, os.O_CREAT)

    def revoke(self, name: str) -> None:
        """Remove a token. Raises ConfigurationError if there is none of this name."""

        def revoked(lines: list[str]) -> list[str]:
            if name not in self._names(lines):
                raise ConfigurationError(f"there is no token {name!r} in {self._path}")
            return [line for line in lines if line.partition("#")[0].split()[:1] != [name]]

        self._change(revoked)

    def _names(self, lines: list[str]) -> set[str]:
        return {token.name for token in Tokens.parse("".join(lines), str(self._path))}

    def _change(self, change: Callable[[list[str]], list[str]], flags: int = 0) -> None:
        """Replace the lines, one process at a time: two at once would undo each other's change."""
        try:
            # In place, so that the file stays its owner's, and the broker can read it.
            with os.fdopen(os.open(self._path, os.O_RDWR | flags, 0o600), "r+", newline="") as file:
                self._lock(file.fileno())
                lines = change(list(file))
                file.seek(0)
                file.write("".join(lines))
                file.truncate()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error}") from error

    def _lock(self, fd: int) -> None:
        until_s = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                # Closing the file unlocks it.
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until_s:
                    raise ConfigurationError(
                        f"another process has locked {self._path} for {_LOCK_WAIT_S:g} s: end it, and try"
                        " again"
                    ) from None
            time.sleep(_LOCK_POLL_S)

    def _signature(self) -> _Signature:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
