"""Limits: what is paused, how many jobs may run at the same time, and how many begin a second.

    Limits    the rules, as they were asked for. A value: a change makes a new one
    Buckets   for each rate that is in use, how many jobs may begin at once

A rate is kept by a bucket of tokens: a job that begins takes one, and they come back with time,
up to `burst` of them. The time is that of the operations. One from before the last never brings
tokens back; and a clock that was far ahead once does not keep the bucket empty until then.
"""

import heapq
import math
from collections.abc import Callable, Mapping
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
RATE_MIN, RATE_MAX = 1e-6, 1e9
# Clocks that differ by more are not believed; one that goes back by more is a new clock.
SKEW_MAX = timedelta(minutes=1)
_ALMOST = 1 - 1e-6
# A bucket that takes longer to be full is looked at in between.
_LOOK_AGAIN_S = 86400.0
_TICK = timedelta(microseconds=1)
_FORGET_AT_ONCE = 2


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
        # When those of limit keys may be full. It is found out when first asked for.
        self._full: list[tuple[datetime, str]] | None = None
        self._full_at: dict[str, datetime] = {}

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
        self._full = None

    def take(self, entrypoint: str, limit: Limit, now: datetime) -> None:
        """A job of an entrypoint with a rate begins."""
        tokens, at = _refilled(self.entrypoints.get(entrypoint), limit, now)
        self._journal.put(self.entrypoints, entrypoint, Bucket(tokens - 1, at))

    def take_of_key(self, limit_key: str, limit: Limit, now: datetime) -> None:
        """A job of a limit key with a rate begins."""
        tokens, at = _refilled(self.limit_keys.get(limit_key), limit, now)
        bucket = Bucket(tokens - 1, at)
        self._journal.put(self.limit_keys, limit_key, bucket)
        if self._full is not None:
            self._look_at(limit_key, full_at(bucket, limit))

    def forget_full(self, limit_of: Callable[[str], Limit | None], now: datetime) -> None:
        """Forget some of the limit keys that have been at rest for so long that theirs are full."""
        if self._full is None:
            self._full, self._full_at = [], {}
            for name, bucket in self.limit_keys.items():
                self._look_at(name, full_at(bucket, limit_of(name)))
        for _ in range(_FORGET_AT_ONCE):
            if not self._full or self._full[0][0] > now:
                return
            moment, name = heapq.heappop(self._full)
            if self._full_at.get(name) != moment:
                continue  # it was to be full earlier
            del self._full_at[name]
            if (full := self.limit_keys.get(name)) is None:
                continue
            limit = limit_of(name)
            if is_full(full, limit, now):
                self._journal.note(self._look_at, name, moment)
                self._journal.put(self.limit_keys, name, None)
            else:
                self._look_at(name, max(full_at(full, limit), now + _TICK))

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
            self._full = None
        return bool(ahead)

    def _look_at(self, name: str, moment: datetime) -> None:
        known = self._full_at.get(name)
        if self._full is not None and (known is None or moment < known):
            self._full_at[name] = moment
            heapq.heappush(self._full, (moment, name))


def has_token(bucket: Bucket | None, limit: Limit, now: datetime) -> bool:
    """Whether a job may begin."""
    if limit.rate is None or bucket is None or bucket.tokens >= _ALMOST:
        return True
    return _refilled(bucket, limit, now)[0] >= _ALMOST


def refilled_at(bucket: Bucket | None, limit: Limit, now: datetime) -> datetime:
    """When the next job may begin."""
    if limit.rate is None or bucket is None:
        return now
    tokens, at = _refilled(bucket, limit, now)
    return at + timedelta(microseconds=max(0, math.ceil((1 - tokens) / limit.rate * 1e6)))


def full_at(bucket: Bucket, limit: Limit | None) -> datetime:
    """When a bucket may be full, if it is left alone."""
    if limit is None or limit.rate is None:
        return bucket.at
    missing_s = (limit.tokens_max - bucket.tokens) / limit.rate
    return bucket.at + timedelta(seconds=min(missing_s, _LOOK_AGAIN_S))


def is_full(bucket: Bucket, limit: Limit | None, now: datetime) -> bool:
    """Whether a bucket says no more than none would."""
    if limit is None or limit.rate is None:
        return True
    return _refilled(bucket, limit, now)[0] >= limit.tokens_max


def _refilled(bucket: Bucket | None, limit: Limit, now: datetime) -> tuple[float, datetime]:
    if bucket is None:
        return limit.tokens_max, now
    tokens, at = bucket
    if now < at:
        return tokens, now if at - now > SKEW_MAX else at
    tokens += (now - at).total_seconds() * (limit.rate or 0.0)
    most = limit.tokens_max
    return (tokens if tokens < most else most), now


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
