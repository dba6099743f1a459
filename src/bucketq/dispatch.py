"""Dispatcher: whose turn it is where limits, pauses or tenants have a say.

    ready line of an entrypoint ──▶ the first one ── its limit key has room ──▶ may begin
                                          │ saturated
                                          ▼
                        parked, by limit key, as are the key's own segments
                                          │ a job of the key has ended, its bucket was refilled
                                          ▼
                                  open: may begin again, in the same order

So nobody looks twice at jobs that may not begin. All of this is derived from the jobs, and
only kept in memory: a parked job is a waiting job like any other.
"""

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime

from bucketq.backlog import Backlog
from bucketq.job import Job, JobStatus
from bucketq.limits import Limit, Limits
from bucketq.rate_buckets import SKEW_MAX, RateBucket, RateBuckets, has_token, refilled_at
from bucketq.segment import Key, Segment, key_of
from bucketq.table import JobTable
from bucketq.wanted import Wanted, names_of

_NO_LIMIT = 1 << 31
# For the jobs of one limit key no more workers are woken at once.
_WAKE_MAX = 100
# The limits of so many keys are known without another search.
_KNOWN_MAX = 10_000
_QUEUED = JobStatus.QUEUED
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


class Dispatcher:
    """Finds the next job that may begin. Other limits make a new one."""

    def __init__(self, table: JobTable, buckets: RateBuckets, limits: Limits) -> None:
        self._table = table
        self._buckets = buckets
        self._limits = limits
        self._paused = frozenset(limits.paused)
        self._limit_of_key: dict[str, Limit | None] = {}
        self._backlog = Backlog()
        self._now: datetime | None = None
        self._parked: dict[tuple[str, str], list[tuple[Key, str]]] = {}
        # What is parked, with its place: a job that comes into line again may have another one.
        self._parked_at: dict[str, Key] = {}
        # For each limit key that is parked: the entrypoints in which it is.
        self._places: dict[str, set[str]] = {}
        table.watched_keys = self._places
        # For each entrypoint the limit keys that may have room, by the key of their first job.
        self._open: dict[str, list[tuple[Key, str]]] = {}
        self._opened: dict[tuple[str, str], Key] = {}
        # When a limit key may have room again.
        self._refills: list[tuple[datetime, str]] = []
        self._refill_of: dict[str, datetime] = {}

    def next(self, wanted: Wanted, now: datetime, backlog: Backlog) -> Job | Segment | None:
        """The job whose turn it is, or the segment that it may be in."""
        self._catch_up(now, backlog)
        best: Job | Segment | None = None
        for one in self._served(wanted):
            if self.room(one, now) and (head := self._head(one, now)) is not None:
                # Turns are those of one entrypoint: between two the one that came first is served first.
                best = head if best is None or _age(head) < _age(best) else best
        return best

    def began(self, job: Job, now: datetime) -> None:
        """A job takes its tokens."""
        limit = self._limits.entrypoints.get(job.entrypoint)
        if limit is not None and limit.rate is not None:
            self._buckets.take(job.entrypoint, limit, now)
        if job.limit_key is not None:
            limit = self._limit_of(job.limit_key)
            if limit is not None and limit.rate is not None:
                self._buckets.take_of_key(job.limit_key, limit, now)
        if self._buckets.limit_keys:
            self._buckets.forget_full(self._limit_of, now)

    def claimable(self, wanted: Wanted, now: datetime, backlog: Backlog) -> int:
        """About how many jobs may begin; 0 if certainly none."""
        self._catch_up(now, backlog)
        total = 0
        for one in self._served(wanted):
            if (room := self.room(one, now)) and self._head(one, now) is not None:
                unparked = self._table.ready.count(one) - self._count_parked(one)
                beside = sum(segment.count for segment in backlog.upcoming(one, 2))
                opened = sum(
                    min(self._room_of_key(limit_key, now), _WAKE_MAX)
                    for place, limit_key in self._opened
                    if place == one
                )
                total += min(room, max(1, unparked + beside + opened))
        return total

    def next_refill(self, now: datetime) -> datetime | None:
        """When a job that waits for a rate may begin, if one does."""
        moments = [self._refills[0][0]] if self._refills else []
        for entrypoint, limit in self._limits.entrypoints.items():
            if not has_token(bucket := self._buckets.entrypoints.get(entrypoint), limit, now):
                moments.append(refilled_at(bucket, limit, now))
        return min(moments, default=None)

    def is_limited(self, limit_key: str) -> bool:
        """Whether a limit key has a limit."""
        return self._limit_of(limit_key) is not None

    def is_saturated(self, limit_key: str) -> bool:
        """Whether no job of a limit key could begin when the last one did."""
        bucket = self._buckets.limit_keys.get(limit_key)
        # Without a bucket the time does not matter.
        return not self._room_of_key(limit_key, bucket.at if bucket else _ANY_TIME)

    @property
    def parked(self) -> int:
        """About how many jobs in queue.json wait for room for their limit key."""
        return len(self._parked_at)

    def room(self, entrypoint: str, now: datetime) -> int:
        """How many more jobs of an entrypoint may begin."""
        if self._limits.is_paused or entrypoint in self._paused:
            return 0
        limit = self._limits.entrypoints.get(entrypoint)
        if limit is None:
            return _NO_LIMIT
        running = self._table.running[entrypoint] + self._backlog.count(JobStatus.IN_PROGRESS, entrypoint)
        return _room(limit, self._buckets.entrypoints.get(entrypoint), running, now)

    def _room_of_key(self, limit_key: str, now: datetime) -> int:
        limit = self._limit_of(limit_key)
        if limit is None:
            return _NO_LIMIT
        bucket = self._buckets.limit_keys.get(limit_key)
        return _room(limit, bucket, self._table.running_keys.get(limit_key, 0), now)

    def _limit_of(self, limit_key: str) -> Limit | None:
        try:
            return self._limit_of_key[limit_key]
        except KeyError:
            if len(self._limit_of_key) >= _KNOWN_MAX:
                self._limit_of_key.clear()
            limit = self._limit_of_key[limit_key] = self._limits.of_key(limit_key)
            return limit

    def _served(self, wanted: Wanted) -> Iterable[str]:
        if wanted is not None:
            return names_of(wanted)
        return self._table.ready.entrypoints | self._backlog.entrypoints

    def _catch_up(self, now: datetime, backlog: Backlog) -> None:
        """Open the limit keys that may have room since the last look."""
        if backlog is not self._backlog:
            self._backlog = backlog
            for entrypoint, limit_key in backlog.key_lines:
                self._places.setdefault(limit_key, set()).add(entrypoint)
                self._open_key(entrypoint, limit_key)
        if self._table.freed:
            for limit_key in self._table.freed:
                self._open_everywhere(limit_key)
            self._table.freed.clear()
        is_new_clock = False
        if self._now is None or now >= self._now:
            self._now = now
        elif now < self._now - SKEW_MAX:
            self._now, is_new_clock = now, True
        while self._refills and (is_new_clock or self._refills[0][0] <= now):
            _, limit_key = heapq.heappop(self._refills)
            self._refill_of.pop(limit_key, None)
            self._open_everywhere(limit_key)

    def _head(self, entrypoint: str, now: datetime) -> Job | Segment | None:
        while (job := self._table.ready.first(entrypoint)) is not None:
            if job.limit_key is None or self._room_of_key(job.limit_key, now):
                break
            self._park(job, job.limit_key, now)
        opened = self._first_opened(entrypoint, now) if entrypoint in self._open else None
        segment = self._backlog.first(entrypoint)
        if opened is None and segment is None:
            return job
        heads = (job, opened, segment)
        return min((head for head in heads if head is not None), key=_key, default=None)

    def _park(self, job: Job, limit_key: str, now: datetime) -> None:
        self._table.ready.set_aside(job.entrypoint)
        line = job.entrypoint, limit_key
        key = key_of(job)
        if self._parked_at.get(job.id) != key:
            self._parked_at[job.id] = key
            heapq.heappush(self._parked.setdefault(line, []), (key, job.id))
        self._places.setdefault(limit_key, set()).add(job.entrypoint)
        if line in self._opened:
            # It was open, and is full now: what is in front may have changed.
            self._open_key(*line)
        self._await_refill(limit_key, now)

    def _await_refill(self, limit_key: str, now: datetime) -> None:
        limit, bucket = self._limit_of(limit_key), self._buckets.limit_keys.get(limit_key)
        if limit is not None and not has_token(bucket, limit, now):
            moment, known = refilled_at(bucket, limit, now), self._refill_of.get(limit_key)
            if known is None or moment < known:
                self._refill_of[limit_key] = moment
                heapq.heappush(self._refills, (moment, limit_key))

    def _open_everywhere(self, limit_key: str) -> None:
        for entrypoint in tuple(self._places.get(limit_key, ())):
            self._open_key(entrypoint, limit_key)

    def _open_key(self, entrypoint: str, limit_key: str) -> None:
        head = self._first_of_key(entrypoint, limit_key)
        if head is None:
            return
        key, opened = _key(head), self._opened.get((entrypoint, limit_key))
        if opened is None or key < opened:
            self._opened[entrypoint, limit_key] = key
            heapq.heappush(self._open.setdefault(entrypoint, []), (key, limit_key))

    def _first_opened(self, entrypoint: str, now: datetime) -> Job | Segment | None:
        heap = self._open.get(entrypoint, [])
        while heap:
            key, limit_key = heap[0]
            line = entrypoint, limit_key
            if self._opened.get(line) != key:
                heapq.heappop(heap)
                continue
            head = self._first_of_key(entrypoint, limit_key)
            if head is not None and not self._room_of_key(limit_key, now):
                self._await_refill(limit_key, now)
                head = None
            if head is not None and _key(head) == key:
                return head
            heapq.heappop(heap)
            del self._opened[line]
            if head is not None:
                self._open_key(entrypoint, limit_key)
        return None

    def _first_of_key(self, entrypoint: str, limit_key: str) -> Job | Segment | None:
        parked = self._parked.get((entrypoint, limit_key), [])
        segment = self._backlog.first_of_key(entrypoint, limit_key)
        while parked:
            key, job_id = parked[0]
            job = self._table.get(job_id)
            is_here = self._parked_at.get(job_id) == key
            if is_here and job is not None and job.status is _QUEUED:
                return segment if segment is not None and segment.first < key else job
            heapq.heappop(parked)
            if is_here:
                del self._parked_at[job_id]
        if segment is None and (places := self._places.get(limit_key)) is not None:
            self._parked.pop((entrypoint, limit_key), None)
            places.discard(entrypoint)
            if not places:
                del self._places[limit_key]
        return segment

    def _count_parked(self, entrypoint: str) -> int:
        return sum(len(heap) for (place, _), heap in self._parked.items() if place == entrypoint)


def _room(limit: Limit, bucket: RateBucket | None, running: int, now: datetime) -> int:
    if limit.max_running is not None and running >= limit.max_running:
        return 0
    if bucket is not None and not has_token(bucket, limit, now):
        return 0
    return _NO_LIMIT if limit.max_running is None else limit.max_running - running


def _key(head: Job | Segment) -> Key:
    return key_of(head) if isinstance(head, Job) else head.first


def _age(head: Job | Segment) -> tuple[int, int]:
    priority, _, sequence = _key(head)
    if isinstance(head, Segment) and head.may_have_turns:
        # Behind jobs that may not begin there may be one that came before them.
        return priority, 0
    return priority, sequence
