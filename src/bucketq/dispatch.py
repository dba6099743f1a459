"""Dispatcher: whose turn it is where limits, pauses or tenants have a say.

    ready line of an entrypoint ──▶ the first one ── its limit key has room ──▶ may begin
                                          │ saturated
                                          ▼
                        parked, by limit key, as are the key's own segments,
                        and the segments that were passed over
                                          │ a job of the key has ended, its bucket was refilled
                                          ▼
                                  open: may begin again, in the same order

So nobody looks twice at jobs that may not begin. All of this is derived from the jobs, and
only kept in memory: a parked job is a waiting job like any other.
"""

import heapq
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from bucketq.backlog import Backlog
from bucketq.job import Job, JobStatus
from bucketq.limits import Limit, Limits
from bucketq.passed import PassedJob, PassedSegments
from bucketq.rate_buckets import SKEW_MAX, RateBucket, RateBuckets, has_token, refilled_at
from bucketq.segment import Key, Segment, key_of
from bucketq.table import JobTable
from bucketq.wanted import Wanted, names_of

_NO_LIMIT = 1 << 31
# For the jobs of one limit key no more workers are woken at once.
_WAKE_MAX = 100
# Nor for all of them: there is another look after the next commit.
_CLAIMABLE_MAX = 1000
# The limits of so many keys are known without another search.
_KNOWN_MAX = 10_000
# So many places in segments that were passed over are kept in memory. What stands behind them has to wait.
_PASSED_MAX = 100_000
_HEAP_SLACK = 64
_QUEUED = JobStatus.QUEUED
_ANY_TIME = datetime.min.replace(tzinfo=UTC)

# A job, or where the next one may be.
Head = Job | Segment | PassedJob

# The priority and the sequence of a job.
_Age = tuple[int, int]


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
        # By entrypoint and limit key.
        self._parked: dict[str, dict[str, list[tuple[Key, str]]]] = {}
        self._parked_entries = 0
        self._passed = PassedSegments()
        # How many segments from the first one of an entrypoint on were passed over, at least.
        self._passed_first: dict[str, int] = {}
        # For each limit key that is parked: the entrypoints in which it is.
        self._places: dict[str, set[str]] = {}
        table.watched_keys = self._places
        # For each entrypoint the limit keys that may have room, by the key of their first job.
        self._open: dict[str, list[tuple[Key, str]]] = {}
        self._opened: dict[str, dict[str, Key]] = {}
        # When a limit key, or an entrypoint, may have room again.
        self._refills = _Moments()
        self._entrypoint_refills = _Moments()
        # The entrypoints of which a job may begin, as of the last look, and a heap of them.
        self._heads: dict[str, _Age] = {}
        self._line: list[tuple[_Age, str]] = []
        table.changed = None

    def next(self, wanted: Wanted, now: datetime, backlog: Backlog) -> Head | None:
        """The job whose turn it is, or the segment that it may be in."""
        self._table.ready.note(wanted)
        self._catch_up(now, backlog)
        if isinstance(wanted, str):
            return self._head(wanted, now) if self.room(wanted, now) else None
        self._look_at_changes(now)
        # Turns are those of one entrypoint: between two the one that came first is served first.
        while (first := self._first_in_line(wanted)) is not None:
            age, entrypoint = first
            head = self._look(entrypoint, now)
            if head is not None and _age(head) == age:
                return head
        return None

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
        """About how many jobs may begin, up to a thousand or so; 0 if certainly none."""
        self._catch_up(now, backlog)
        names: Iterable[str] = names_of(wanted)
        if wanted is None:
            self._look_at_changes(now)
            names = tuple(self._heads)
        total = 0
        for one in names:
            if (room := self.room(one, now)) and self._head(one, now) is not None:
                unparked = self._table.ready.count(one) - self._count_parked(one)
                beside = sum(segment.count for segment in backlog.upcoming(one, 2))
                opened = sum(
                    min(self._room_of_key(limit_key, now), _WAKE_MAX)
                    for limit_key in self._opened.get(one, ())
                )
                total += min(room, max(1, unparked + beside + opened))
                if total >= _CLAIMABLE_MAX:
                    break
        return total

    def next_refill(self, now: datetime) -> datetime | None:
        """When a job that waits for a rate may begin, if one does."""
        moments = [] if self._refills.first is None else [self._refills.first]
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

    def pass_over(self, segment: Segment, places: Mapping[str, Key]) -> None:
        """Leave a segment of mixed limit keys where it is; the jobs of each begin at these places."""
        self._passed.put(segment, places)
        for limit_key in places:
            self._places.setdefault(limit_key, set()).add(segment.entrypoint)
            self._open_key(segment.entrypoint, limit_key)

    def move(self, segment: Segment, limit_key: str, place: Key | None) -> None:
        """In a segment that was passed over, the jobs of a limit key begin at another place now."""
        self._passed.move(segment, limit_key, place)

    @property
    def parked(self) -> int:
        """How many jobs in queue.json wait for room for their limit key, as far as that was found out."""
        return len(self._table.ready.aside)

    @property
    def entries(self) -> int:
        """How many entries the indexes hold in memory."""
        parked = sum(len(heap) for heaps in self._parked.values() for heap in heaps.values())
        opened = sum(map(len, self._open.values())) + sum(map(len, self._opened.values()))
        refills = len(self._refills) + len(self._entrypoint_refills)
        places = len(self._places) + self._passed.entries
        return parked + opened + refills + places + len(self._heads) + len(self._line)

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
            limit = self._limit_of_key[limit_key] = self._limits.of_key(limit_key) if limit_key else None
            return limit

    def _catch_up(self, now: datetime, backlog: Backlog) -> None:
        """Open the limit keys that may have room since the last look."""
        if backlog is not self._backlog:
            before, self._backlog = self._backlog, backlog
            for status, entrypoint, limit_key in backlog.changed_lines(before):
                self._table.mark(entrypoint)
                if status is _QUEUED and limit_key is None:
                    self._passed_first.pop(entrypoint, None)
                    for forgotten in self._passed.follow(entrypoint, backlog.line(_QUEUED, entrypoint)):
                        self._first_of_key(entrypoint, forgotten)
                if limit_key is not None and backlog.first_of_key(entrypoint, limit_key) is not None:
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
        for limit_key in self._refills.pop(None if is_new_clock else now):
            self._open_everywhere(limit_key)
        for entrypoint in self._entrypoint_refills.pop(None if is_new_clock else now):
            self._table.mark(entrypoint)

    def _look_at_changes(self, now: datetime) -> None:
        """Find out of which entrypoints a job may begin, as far as that may have changed."""
        changed = self._table.changed
        if changed is None:
            self._heads, self._line = {}, []
            changed = self._table.ready.entrypoints | self._backlog.entrypoints
        self._table.changed = set()
        self._table.ready.prepare(changed)
        for entrypoint in changed:
            self._look(entrypoint, now)

    def _look(self, entrypoint: str, now: datetime) -> Head | None:
        """Find the first job of an entrypoint that may begin, and note its place."""
        head = self._head(entrypoint, now) if self.room(entrypoint, now) else None
        if head is None:
            self._heads.pop(entrypoint, None)
            limit = self._limits.entrypoints.get(entrypoint)
            bucket = self._buckets.entrypoints.get(entrypoint)
            if limit is not None and not has_token(bucket, limit, now):
                self._entrypoint_refills.put(entrypoint, refilled_at(bucket, limit, now))
        elif self._heads.get(entrypoint) != (age := _age(head)):
            self._heads[entrypoint] = age
            heapq.heappush(self._line, (age, entrypoint))
            if len(self._line) > 2 * len(self._heads) + _HEAP_SLACK:
                self._line = sorted((age, name) for name, age in self._heads.items())
        return head

    def _first_in_line(self, wanted: Wanted) -> "tuple[_Age, str] | None":
        if wanted is not None:
            known = ((self._heads[name], name) for name in names_of(wanted) if name in self._heads)
            return min(known, default=None)
        while self._line and self._heads.get(self._line[0][1]) != self._line[0][0]:
            heapq.heappop(self._line)
        return self._line[0] if self._line else None

    def _head(self, entrypoint: str, now: datetime) -> Head | None:
        while (job := self._table.ready.head(entrypoint)) is not None:
            if job.limit_key is None or self._room_of_key(job.limit_key, now):
                break
            self._park(job, job.limit_key, now)
        opened = self._first_opened(entrypoint, now) if entrypoint in self._open else None
        segment = self._next_segment(entrypoint)
        if opened is None and segment is None:
            return job
        heads = (job, opened, segment)
        return min((head for head in heads if head is not None), key=_key, default=None)

    def _next_segment(self, entrypoint: str) -> Segment | None:
        """The first segment of an entrypoint that was not passed over."""
        if not self._passed.has_some_of(entrypoint):
            return self._backlog.first(entrypoint)
        if self._passed.entries >= _PASSED_MAX:
            return None
        line, number = self._backlog.line(_QUEUED, entrypoint), self._passed_first.get(entrypoint, 0)
        while number < len(line) and line[number] in self._passed:
            number += 1
        self._passed_first[entrypoint] = number
        return line[number] if number < len(line) else None

    def _park(self, job: Job, limit_key: str, now: datetime) -> None:
        if self._table.ready.set_aside(job):
            parked = self._parked.setdefault(job.entrypoint, {}).setdefault(limit_key, [])
            heapq.heappush(parked, (key_of(job), job.id))
            self._parked_entries += 1
        self._places.setdefault(limit_key, set()).add(job.entrypoint)
        if limit_key in self._opened.get(job.entrypoint, ()):
            # It was open, and is full now: what is in front may have changed.
            self._open_key(job.entrypoint, limit_key)
        self._await_refill(limit_key, now)
        # Parked jobs that were claimed, cancelled or replaced leave their entries behind.
        if self._parked_entries > 2 * self.parked + _HEAP_SLACK:
            self._forget_departed()

    def _forget_departed(self) -> None:
        """Forget the parked jobs that do not wait any more."""
        for entrypoint, keys in list(self._parked.items()):
            for limit_key, heap in list(keys.items()):
                heap[:] = sorted({entry for entry in heap if self._is_parked(*entry)})
                self._first_of_key(entrypoint, limit_key)
        self._parked_entries = sum(len(heap) for keys in self._parked.values() for heap in keys.values())

    def _is_parked(self, key: Key, job_id: str) -> bool:
        # One that has come into line again may have another place.
        return self._table.ready.aside.get(job_id) == key

    def _await_refill(self, limit_key: str, now: datetime) -> None:
        limit, bucket = self._limit_of(limit_key), self._buckets.limit_keys.get(limit_key)
        if limit is not None and not has_token(bucket, limit, now):
            self._refills.put(limit_key, refilled_at(bucket, limit, now))

    def _open_everywhere(self, limit_key: str) -> None:
        for entrypoint in tuple(self._places.get(limit_key, ())):
            self._open_key(entrypoint, limit_key)

    def _open_key(self, entrypoint: str, limit_key: str) -> None:
        head = self._first_of_key(entrypoint, limit_key)
        if head is None:
            return
        self._table.mark(entrypoint)
        keys = self._opened.setdefault(entrypoint, {})
        key, opened = _key(head), keys.get(limit_key)
        if opened is None or key < opened:
            keys[limit_key] = key
            heap = self._open.setdefault(entrypoint, [])
            heapq.heappush(heap, (key, limit_key))
            if len(heap) > 2 * len(keys) + _HEAP_SLACK:
                heap[:] = sorted((key, limit_key) for limit_key, key in keys.items())

    def _first_opened(self, entrypoint: str, now: datetime) -> Head | None:
        heap, keys = self._open[entrypoint], self._opened[entrypoint]
        while heap:
            key, limit_key = heap[0]
            if keys.get(limit_key) != key:
                heapq.heappop(heap)
                continue
            head = self._first_of_key(entrypoint, limit_key)
            if head is not None and not self._room_of_key(limit_key, now):
                self._await_refill(limit_key, now)
                head = None
            if head is not None and _key(head) == key:
                return head
            heapq.heappop(heap)
            del keys[limit_key]
            if head is not None:
                self._open_key(entrypoint, limit_key)
        del self._open[entrypoint], self._opened[entrypoint]
        return None

    def _first_of_key(self, entrypoint: str, limit_key: str) -> Head | None:
        parked = self._parked.get(entrypoint, {}).get(limit_key, [])
        while parked and not self._is_parked(*parked[0]):
            heapq.heappop(parked)
            self._parked_entries -= 1
        job = self._table.get(parked[0][1]) if parked else None
        segment = self._backlog.first_of_key(entrypoint, limit_key)
        heads = (job, segment, self._passed.first(entrypoint, limit_key))
        first = min((head for head in heads if head is not None), key=_key, default=None)
        if first is None and (places := self._places.get(limit_key)) is not None:
            self._unpark_line(entrypoint, limit_key)
            places.discard(entrypoint)
            if not places:
                del self._places[limit_key]
        return first

    def _unpark_line(self, entrypoint: str, limit_key: str) -> None:
        if (keys := self._parked.get(entrypoint)) is not None:
            keys.pop(limit_key, None)
            if not keys:
                del self._parked[entrypoint]

    def _count_parked(self, entrypoint: str) -> int:
        return sum(map(len, self._parked.get(entrypoint, {}).values()))


class _Moments:
    """For each name the earliest moment at which it has to be looked at again."""

    def __init__(self) -> None:
        self._of: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> datetime | None:
        """The earliest of all."""
        return self._heap[0][0] if self._heap else None

    def put(self, name: str, moment: datetime) -> None:
        """Look at a name at this moment, unless it is looked at before."""
        known = self._of.get(name)
        if known is None or moment < known:
            self._of[name] = moment
            heapq.heappush(self._heap, (moment, name))
            if len(self._heap) > 2 * len(self._of) + _HEAP_SLACK:
                self._heap = sorted((moment, name) for name, moment in self._of.items())

    def pop(self, now: datetime | None) -> list[str]:
        """Take out the names whose moment has come; all, if none is given."""
        names = []
        while self._heap and (now is None or self._heap[0][0] <= now):
            moment, name = heapq.heappop(self._heap)
            # It may have been looked at before, at an earlier moment.
            if self._of.get(name) == moment:
                del self._of[name]
                names.append(name)
        return names


def _room(limit: Limit, bucket: RateBucket | None, running: int, now: datetime) -> int:
    if limit.max_running is not None and running >= limit.max_running:
        return 0
    if bucket is not None and not has_token(bucket, limit, now):
        return 0
    return _NO_LIMIT if limit.max_running is None else limit.max_running - running


def _key(head: Head) -> Key:
    return key_of(head) if isinstance(head, Job) else head.first


def _age(head: Head) -> _Age:
    priority, _, sequence = _key(head)
    segment = head.segment if isinstance(head, PassedJob) else head
    if isinstance(segment, Segment) and segment.may_have_turns:
        # Behind jobs that may not begin there may be one that came before them.
        return priority, 0
    return priority, sequence
