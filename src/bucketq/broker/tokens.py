"""Tokens: who may come in, one a line, as in authorized_keys.

    # name   roles             hash of the secret    until when, if not for ever
    web      producer          sha256:9f86d081…
    mailer   worker,producer   sha256:60303ae2…      2027-01-01T00:00:00Z

Only hashes are kept, so whoever reads the file cannot come in. A plain SHA-256 is enough, without salt
and without being slow: those protect passwords, which can be guessed. A secret of 256 random bits cannot,
and a slow hash would only slow down every call.
"""

import hmac
import re
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from bucketq.broker.access import Caller, Role
from bucketq.errors import ConfigurationError, UnauthenticatedError

# By this people, and programs that look for leaked secrets, know what they see.
PREFIX = "bq_"
_HASH = "sha256:"
# No "@": it parts a worker's name from its token's.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Token:
    """What is known of a secret: whose it is, what it is good for, its hash, and when it ends."""

    name: str
    roles: frozenset[Role]
    digest: str
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "a token's name has up to 64 letters, digits, dots, dashes and underscores, and begins with"
                " a letter or digit"
            )

    @property
    def line(self) -> str:
        """The token as it stands in a file."""
        until = f" {self.expires_at:%Y-%m-%dT%H:%M:%SZ}" if self.expires_at else ""
        return f"{self.name} {self.role_names} {_HASH}{self.digest}{until}"

    @property
    def role_names(self) -> str:
        """Its roles as text, from the least to the most."""
        return ",".join(role for role in Role if role in self.roles)

    def is_over(self, now: datetime) -> bool:
        """Whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


def new_token(name: str, roles: Collection[str], expires_at: datetime | None = None) -> tuple[str, Token]:
    """A new secret, which is nowhere kept, and what is to be kept of it. Raises ConfigurationError.

    >>> secret, token = new_token("web", ["producer"])
    >>> Tokens.parse(token.line).caller_of(secret, datetime.now(UTC)).name
    'web'
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Token(name, _roles_of(roles), _digest(secret), expires_at)


class Tokens:
    """Some tokens, each with a name of its own."""

    def __init__(self, tokens: Collection[Token]) -> None:
        self._tokens = tuple(tokens)

    @classmethod
    def parse(cls, text: str, source: str = "the tokens") -> "Tokens":
        """The tokens in a text. Raises ConfigurationError with the number of a line, not its content."""
        tokens: dict[str, Token] = {}
        for number, line in enumerate(text.splitlines(), 1):
            fields = line.partition("#")[0].split()
            if not fields:
                continue
            try:
                token = _token_of(fields)
                if token.name in tokens:
                    raise ConfigurationError("another line has this name already")
            except ConfigurationError as error:
                raise ConfigurationError(f"{source}, line {number}: {error}") from None
            tokens[token.name] = token
        return cls(tokens.values())

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def caller_of(self, secret: str, now: datetime) -> Caller:
        """Whoever has this secret. Raises UnauthenticatedError."""
        digest = _digest(secret)
        found: Token | None = None
        for token in self._tokens:
            # All of them, and each to its end, so that the time it takes tells nothing.
            if hmac.compare_digest(digest, token.digest):
                found = token
        if found is None:
            raise UnauthenticatedError("this token is not known here: it is wrong, or was revoked")
        if found.is_over(now):
            raise UnauthenticatedError(
                f"the token {found.name!r} expired at {found.expires_at:%Y-%m-%dT%H:%M:%SZ}: get a new one"
            )
        return Caller(found.name, found.roles)


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()


def _token_of(fields: list[str]) -> Token:
    if not 3 <= len(fields) <= 4:
        raise ConfigurationError("a line is: name roles sha256:hash [expires]")
    name, roles, digest, *until = fields
    if not re.fullmatch(_HASH + "[0-9a-f]{64}", digest):
        raise ConfigurationError(
            "the third field is sha256: and 64 hexadecimal digits, never the secret itself. `bucketq token"
            ' new` makes both; of a secret that exists: printf %s "$SECRET" | sha256sum'
        )
    return Token(name, _roles_of(roles.split(",")), digest.removeprefix(_HASH), _moment(*until))


def _roles_of(names: Collection[str]) -> frozenset[Role]:
    if not names or not {*names} <= {*Role}:
        raise ConfigurationError(f"roles are some of {', '.join(Role)}")
    return frozenset(map(Role, names))


def _moment(text: str | None = None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        # A day, or a time that names no zone, is meant in UTC.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ConfigurationError("the end of a token is a time such as 2027-01-01T00:00:00Z") from None
