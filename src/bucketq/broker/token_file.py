"""TokenFile: the file that tokens are in, for those who change it and for brokers that follow it.

    bucketq token new, revoke ──▶ file ──▶ a look every half second ──▶ the broker's door

What is half written is not taken for the whole: a change counts when the file has stood still from one
look to the next. A file that is gone, or that cannot be read, changes nothing: nobody shall come in, or
be shut out, by a mistake in an editor.
"""

import logging
import os
import stat
from pathlib import Path

from bucketq.broker.tokens import Token, Tokens
from bucketq.errors import ConfigurationError

log = logging.getLogger("bucketq")

# With two looks a change has come into effect within about a second.
LOOK_EVERY_S = 0.5

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
        if token.name in {one.name for one in self._tokens()}:
            raise ConfigurationError(
                f"there is a token {token.name!r} in {self._path} already: take another name, or revoke it"
            )
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "a+b") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
                is_whole = file.read() in (b"", b"\n")
                file.write((b"" if is_whole else b"\n") + token.line.encode() + b"\n")
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error}") from error

    def revoke(self, name: str) -> None:
        """Remove a token. Raises ConfigurationError if there is none of this name."""
        if name not in {token.name for token in self.read()}:
            raise ConfigurationError(f"there is no token {name!r} in {self._path}")
        try:
            # In place, so that the file stays its owner's, and the broker can read it.
            with self._path.open("r+") as file:
                kept = [line for line in file if line.partition("#")[0].split()[:1] != [name]]
                file.seek(0)
                file.write("".join(kept))
                file.truncate()
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error}") from error

    def _tokens(self) -> Tokens:
        return self.read() if self._path.exists() else Tokens(())

    def _signature(self) -> _Signature:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
