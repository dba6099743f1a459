"""Limits: what is paused, how many jobs may run at the same time, and how many begin a second.

These are the rules, as they were asked for. How a rate is kept is in `rate_buckets`.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bucketq.errors import ConfigurationError
from bucketq.job import INTEGER_MAX, Count
from bucketq.new_job import check_name

# More of them would make every commit slow. For very many keys there is the `*`.
LIMITS_MAX = 1000
EACH = "*"

_WHOLE_MAX = 2**53 - 1
RATE_MIN, RATE_MAX = 1e-6, 1e9


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many jobs run at the same time, and how many begin a second, `burst` of them at once."""

    max_running: Count | None = None
    rate: Annotated[float, Meta(gt=0)] | None = None
    burst: Annotated[int, Meta(ge=1, le=INTEGER_MAX)] | None = None

    @property
    def tokens_max(self) -> float:
        """How many may begin at once after a long rest."""
        return float(self.burst) if self.burst is not None else max(1.0, self.rate or 0.0)


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All limits of a queue, and what is paused: entrypoints, or (`is_paused`) the whole queue.

    A limit key that ends with `*` stands for each key that begins so. Of several that fit to a
    key the longest one counts.
    """

    is_paused: bool = False
    paused: tuple[str, ...] = ()
    entrypoints: Mapping[str, Limit] = {}
    limit_keys: Mapping[str, Limit] = {}

    def __bool__(self) -> bool:
        return self.is_paused or bool(self.paused or self.entrypoints or self.limit_keys)

    def pauses(self, entrypoint: str) -> bool:
        """Whether no job of an entrypoint may begin."""
        return self.is_paused or entrypoint in self.paused

    def of_key(self, limit_key: str) -> Limit | None:
        """The limit of one key.

        >>> limits = Limits(limit_keys={"user-*": Limit(max_running=1), "user-7": Limit(max_running=5)})
        >>> limits.of_key("user-7").max_running, limits.of_key("user-8").max_running, limits.of_key("x")
        (5, 1, None)
        """
        if not self.limit_keys:
            return None
        if (exact := self.limit_keys.get(limit_key)) is not None:
            return exact
        for end in range(len(limit_key), -1, -1):
            if (each := self.limit_keys.get(limit_key[:end] + EACH)) is not None:
                return each
        return None

    def with_pause(self, entrypoint: str | None) -> "Limits":
        """The same with an entrypoint, or the queue, at rest. Raises ConfigurationError."""
        if entrypoint is None:
            return replace(self, is_paused=True)
        if entrypoint in self.paused:
            return self
        _refuse_more(self.paused)
        return replace(self, paused=(*self.paused, entrypoint))

    def without_pause(self, entrypoint: str | None) -> "Limits":
        """The same with an entrypoint, or the queue, at work again."""
        if entrypoint is None:
            return replace(self, is_paused=False)
        return replace(self, paused=tuple(one for one in self.paused if one != entrypoint))

    def with_limit(self, entrypoint: str | None, limit_key: str | None, limit: Limit) -> "Limits":
        """The same with another limit of an entrypoint, or of a limit key. Raises ConfigurationError."""
        if entrypoint is not None:
            return replace(self, entrypoints=_with(self.entrypoints, entrypoint, limit))
        return replace(self, limit_keys=_with(self.limit_keys, limit_key or "", limit))

    def joined(self, others: "Limits") -> "Limits":
        """These, and those of others for what has none here. Raises ConfigurationError."""
        joined = replace(self, is_paused=self.is_paused or others.is_paused)
        for entrypoint in others.paused:
            joined = joined.with_pause(entrypoint)
        for entrypoint in others.entrypoints.keys() - self.entrypoints.keys():
            joined = joined.with_limit(entrypoint, None, others.entrypoints[entrypoint])
        for limit_key in others.limit_keys.keys() - self.limit_keys.keys():
            joined = joined.with_limit(None, limit_key, others.limit_keys[limit_key])
        return joined


def check_limit(entrypoint: str | None, limit_key: str | None, limit: Limit) -> None:
    """Raise ConfigurationError for what cannot be a limit."""
    if (entrypoint is None) == (limit_key is None):
        raise ConfigurationError("a limit is that of an entrypoint or of a limit_key: give one of them")
    check_name("an entrypoint" if limit_key is None else "limit_key", entrypoint or limit_key)
    if not _is_whole(limit.max_running, 0):
        raise ConfigurationError(f"max_running is a whole number, not {limit.max_running!r}")
    if not _is_whole(limit.burst, 1):
        raise ConfigurationError(f"burst is a whole number from 1, not {limit.burst!r}")
    if limit.rate is not None:
        is_number = isinstance(limit.rate, int | float) and not isinstance(limit.rate, bool)
        if not is_number or not RATE_MIN <= limit.rate <= RATE_MAX:
            raise ConfigurationError(f"rate is a number of jobs a second above 0, not {limit.rate!r}")
    elif limit.burst is not None:
        raise ConfigurationError("burst says how many of a rate may begin at once; give the rate too")


def _with(limits: Mapping[str, Limit], name: str, limit: Limit) -> Mapping[str, Limit]:
    others = {other: kept for other, kept in limits.items() if other != name}
    if limit == Limit():
        return others
    _refuse_more(others)
    return {**others, name: limit}


def _refuse_more(entries: Mapping[str, Limit] | tuple[str, ...]) -> None:
    if len(entries) >= LIMITS_MAX:
        raise ConfigurationError(
            f"a queue has up to {LIMITS_MAX} limits of a kind; a limit_key that ends with * stands for many"
        )


def _is_whole(number: object, least: int) -> bool:
    return number is None or (type(number) is int and least <= number <= _WHOLE_MAX)
