"""Limits: what is paused, how many jobs may run at the same time, and how many begin a second.

    Limits    the rules, as they were asked for. A value: a change makes a new one
    Buckets   for each rate that is in use, how many jobs may begin at once

A rate is kept by a bucket of tokens: a job that begins takes one, and they come back with time,
up to `burst` of them. The time is that of the operations. One from before the last never brings
tokens back; and a clock that was far ahead once does not keep the bucket empty until then.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bucketq.errors import ConfigurationError
from bucketq.job import Moment
from bucketq.journal import Journal
from bucketq.new_job import NAME_MAX, is_text

# More of them would make every commit slow. For very many keys there is the `*`.
LIMITS_MAX = 1000
EACH = "*"

_WHOLE_MAX = 2**53 - 1
_RATE_MIN, _RATE_MAX = 1e-6, 1e9
# Clocks that differ by more are not believed; one that goes back by more is a new clock.
SKEW_MAX = timedelta(minutes=1)
_ALMOST = 1 - 1e-6


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many jobs run at the same time, and how many begin a second, `burst` of them at once."""

    max_running: Annotated[int, Meta(ge=0)] | None = None
    rate: Annotated[float, Meta(gt=0)] | None = None
    burst: Annotated[int, Meta(ge=1)] | None = None

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
        if not is_number or not _RATE_MIN <= limit.rate <= _RATE_MAX:
            raise ConfigurationError(f"rate is a number of jobs a second above 0, not {limit.rate!r}")
    elif limit.burst is not None:
        raise ConfigurationError("burst says how many of a rate may begin at once; give the rate too")


def check_name(what: str, name: object) -> None:
    """Raise ConfigurationError for what cannot be paused or limited."""
    if not (is_text(name) and isinstance(name, str) and 1 <= len(name) <= NAME_MAX):
        raise ConfigurationError(f"{what} is a text of 1 to {NAME_MAX} characters, not {name!r}")


class Bucket(NamedTuple):
    """So many jobs could begin at a time."""

    tokens: float
    at: Moment


class StoredBuckets(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The buckets as queue.json has them."""

    entrypoints: dict[str, Bucket] = {}
    limit_keys: dict[str, Bucket] = {}


class Buckets:
    """The buckets that are not full, of entrypoints and of limit keys."""

    def __init__(self, journal: Journal, stored: StoredBuckets | None = None) -> None:
        self._journal = journal
        # Copies: they are changed in place.
        self.entrypoints = dict(stored.entrypoints) if stored else {}
        self.limit_keys = dict(stored.limit_keys) if stored else {}

    def __bool__(self) -> bool:
        return bool(self.entrypoints or self.limit_keys)

    def stored(self) -> StoredBuckets:
        """What is to be kept."""
        return StoredBuckets(self.entrypoints, self.limit_keys)

    def keep_only(self, limits: Limits) -> None:
        """Forget those of limits that are gone."""
        for name in self.entrypoints.keys() - limits.entrypoints.keys():
            self._journal.put(self.entrypoints, name, None)
        for name in [name for name in self.limit_keys if limits.of_key(name) is None]:
            self._journal.put(self.limit_keys, name, None)

    def take(self, limits: Limits, entrypoint: str, limit_key: str | None, now: datetime) -> None:
        """A job begins."""
        self._take(self.entrypoints, entrypoint, limits.entrypoints.get(entrypoint), now)
        if limit_key is not None:
            self._take(self.limit_keys, limit_key, limits.of_key(limit_key), now)
        self._forget_full(limits, now)

    def set_back(self, now: datetime) -> bool:
        """Let buckets that a clock far ahead has filled count from now on; tell whether there were any."""
        ahead = [
            (stored, name)
            for stored in (self.entrypoints, self.limit_keys)
            for name, bucket in stored.items()
            if bucket.at - now > SKEW_MAX
        ]
        for stored, name in ahead:
            self._journal.put(stored, name, Bucket(stored[name].tokens, now))
        return bool(ahead)

    def _take(self, stored: dict[str, Bucket], name: str, limit: Limit | None, now: datetime) -> None:
        if limit is not None and limit.rate is not None:
            tokens, at = _refilled(stored.get(name), limit, now)
            # At the end of those that were used lately.
            self._journal.put(stored, name, None)
            self._journal.put(stored, name, Bucket(tokens - 1, at))

    def _forget_full(self, limits: Limits, now: datetime) -> None:
        """Forget some that nobody has used for longest."""
        for _ in range(2):
            name = next(iter(self.limit_keys), None)
            if name is None or not is_full(self.limit_keys[name], limits.of_key(name), now):
                return
            self._journal.put(self.limit_keys, name, None)


def has_token(bucket: Bucket | None, limit: Limit, now: datetime) -> bool:
    """Whether a job may begin."""
    return limit.rate is None or bucket is None or _refilled(bucket, limit, now).tokens >= _ALMOST


def refilled_at(bucket: Bucket | None, limit: Limit, now: datetime) -> datetime:
    """When the next job may begin."""
    if limit.rate is None or bucket is None:
        return now
    tokens, at = _refilled(bucket, limit, now)
    return at + timedelta(microseconds=max(0, math.ceil((1 - tokens) / limit.rate * 1e6)))


def is_full(bucket: Bucket, limit: Limit | None, now: datetime) -> bool:
    """Whether a bucket says no more than none would."""
    if limit is None or limit.rate is None:
        return True
    return _refilled(bucket, limit, now).tokens >= limit.tokens_max


def _refilled(bucket: Bucket | None, limit: Limit, now: datetime) -> Bucket:
    if bucket is None:
        return Bucket(limit.tokens_max, now)
    if now < bucket.at:
        return Bucket(bucket.tokens, now) if bucket.at - now > SKEW_MAX else bucket
    came = (now - bucket.at).total_seconds() * (limit.rate or 0.0)
    return Bucket(min(limit.tokens_max, bucket.tokens + came), now)


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
