"""RateBuckets: for each rate that is in use, how many jobs may begin at once.

A rate is kept by a bucket of tokens: a job that begins takes one, and they come back with time,
up to `burst` of them. The time is that of the operations. One from before the last never brings
tokens back; and a clock that was far ahead once does not keep the bucket empty until then.
"""

import heapq
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from bucketq.duration import LONGEST_S, later
from bucketq.job import Moment
from bucketq.journal import Journal
from bucketq.limits import Limit, Limits

# Clocks that differ by more are not believed; one that goes back by more is a new clock.
SKEW_MAX = timedelta(minutes=1)
_ALMOST = 1 - 1e-6
# A bucket that takes longer to be full is looked at in between.
_LOOK_AGAIN_S = 86400.0
_TICK = timedelta(microseconds=1)
_FORGET_AT_ONCE = 2


class RateBucket(NamedTuple):
    """So many jobs could begin at a time."""

    tokens: float
    at: Moment


class StoredBuckets(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The buckets as queue.json has them."""

    entrypoints: dict[str, RateBucket] = {}
    limit_keys: dict[str, RateBucket] = {}


class RateBuckets:
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
        self._journal.put(self.entrypoints, entrypoint, RateBucket(tokens - 1, at))

    def take_of_key(self, limit_key: str, limit: Limit, now: datetime) -> None:
        """A job of a limit key with a rate begins."""
        tokens, at = _refilled(self.limit_keys.get(limit_key), limit, now)
        bucket = RateBucket(tokens - 1, at)
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
            self._journal.put(stored, name, RateBucket(stored[name].tokens, now))
            self._full = None
        return bool(ahead)

    def _look_at(self, name: str, moment: datetime) -> None:
        known = self._full_at.get(name)
        if self._full is not None and (known is None or moment < known):
            self._full_at[name] = moment
            heapq.heappush(self._full, (moment, name))


def has_token(bucket: RateBucket | None, limit: Limit, now: datetime) -> bool:
    """Whether a job may begin."""
    if limit.rate is None or bucket is None or bucket.tokens >= _ALMOST:
        return True
    return _refilled(bucket, limit, now)[0] >= _ALMOST


def refilled_at(bucket: RateBucket | None, limit: Limit, now: datetime) -> datetime:
    """When the next job may begin."""
    if limit.rate is None or bucket is None:
        return now
    tokens, at = _refilled(bucket, limit, now)
    missing_s = min((1 - tokens) / limit.rate, LONGEST_S)
    return at + timedelta(microseconds=max(0, math.ceil(missing_s * 1e6)))


def full_at(bucket: RateBucket, limit: Limit | None) -> datetime:
    """When a bucket may be full, if it is left alone."""
    if limit is None or limit.rate is None:
        return bucket.at
    missing_s = (limit.tokens_max - bucket.tokens) / limit.rate
    return later(bucket.at, min(missing_s, _LOOK_AGAIN_S))


def is_full(bucket: RateBucket, limit: Limit | None, now: datetime) -> bool:
    """Whether a bucket says no more than none would."""
    if limit is None or limit.rate is None:
        return True
    return _refilled(bucket, limit, now)[0] >= limit.tokens_max


def _refilled(bucket: RateBucket | None, limit: Limit, now: datetime) -> tuple[float, datetime]:
    if bucket is None:
        return limit.tokens_max, now
    tokens, at = bucket
    if now < at:
        return tokens, now if at - now > SKEW_MAX else at
    tokens += (now - at).total_seconds() * (limit.rate or 0.0)
    most = limit.tokens_max
    return (tokens if tokens < most else most), now
