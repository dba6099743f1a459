"""Dispatch: whose turn it is, and what must come in, wake up or end before that can be told.

Where nothing is limited or paused and no tenants share an entrypoint, the first one in line is
next; else the Dispatcher says who is.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from bucketq.backlog import SegmentNeededError, parked_max
from bucketq.dispatch import Dispatcher
from bucketq.expiry import MoreExpiredError, is_expired
from bucketq.job import Job, JobStatus
from bucketq.limits import Limits
from bucketq.passed import PassedJob
from bucketq.segment import Key, Segment, due_key, key_of
from bucketq.state.endings import WithEndings
from bucketq.unique import Holder
from bucketq.wanted import Wanted

# Looking a member up in its class is slow.
_QUEUED, _SCHEDULED, _IN_PROGRESS = JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.IN_PROGRESS
_LAST = 1 << 62
# What a claim adds to a job's line, about.
_CLAIM_BYTES = 140
# How many segments are read together when one is needed.
_SEGMENTS_AT_ONCE = 8
# So many expired jobs are finished in one operation; the others follow.
_EXPIRED_AT_ONCE = 1000


class WithDispatch(WithEndings):
    """How jobs are given out."""

    def dequeue(self, wanted: Wanted, token: str, now: datetime, worker: str | None = None) -> Job | None:
        """Claim the next waiting job: lowest priority first, then first in, first out."""
        job = self._next(wanted, now)
        if job is not None and job.expires_at is not None:
            job = self._next_unexpired(job, wanted, now)
        if job is None:
            self.changes += self.buckets.set_back(now)
            return None
        if self._table.count(_IN_PROGRESS):
            # One claim is always granted: where nothing runs, nothing would ever make room again.
            self._make_room(_CLAIM_BYTES)
        began = self._applied(now)
        claimed = replace(
            job,
            status=_IN_PROGRESS,
            attempts=job.attempts + 1,
            token=token,
            worker=worker,
            # Clocks may differ, but no job is claimed before it was made, or given back.
            claimed_at=max(began, job.history[-1].ended_at if job.history else job.created_at),
            heartbeat_at=began,
        )
        self._put(claimed)
        self.claims += 1
        if self._is_limited:
            self._dispatcher.began(job, now)
        if job.turn:
            self.turns.serve(job)
        return claimed

    def is_next_in_segment(self, wanted: Wanted) -> bool:
        """Whether the next job would have to come in first; never where more than the order has a say."""
        segment = self.backlog.first(wanted)
        if segment is None or self._is_governed:
            return False
        job = self._table.ready.first(wanted)
        return job is None or segment.first < key_of(job)

    def claimable(self, wanted: Wanted, now: datetime) -> int:
        """About how many jobs a dequeue would find; 0 if certainly none."""
        ticks = self.schedules.wakes(wanted, now, self._room)
        if self._is_governed:
            found = self._dispatcher.claimable(wanted, now, self.backlog)
            return found + (ticks or self._may_wake(wanted, now))
        latest = (due_key(now)[0], _LAST, _LAST)
        job, segment = self._table.due.first(), self.backlog.first_scheduled(wanted)
        firsts = [*([key_of(job)] if job else ()), *([segment.first] if segment else ())]
        return self.waiting(wanted) + (ticks or any(first <= latest for first in firsts))

    def next_refill(self, now: datetime) -> datetime | None:
        """When a job that waits for a rate may begin; None if there is none."""
        return self._dispatcher.next_refill(now) if self.limits else None

    def wake(self, now: datetime, wanted: Wanted = None) -> None:
        """Let the due scheduled jobs of some entrypoints, or of all, stand in line.

        A whole segment becomes one of waiting jobs, if its jobs are sorted for that. From others they come
        into queue.json, as far as there is room. If there is none, they have to be sorted into segments of
        waiting jobs first: a job that is still in a segment by its time might be the most urgent one.
        """
        latest = (due_key(now)[0], _LAST, _LAST)
        while (job := self._table.due.first()) is not None and key_of(job) <= latest:
            self._put(self._in_line(replace(job, status=_QUEUED)))
        entrypoints = [segment.entrypoint for segment in self._due_segments(wanted, latest, now)]
        self._wake_sorted(entrypoints, latest)
        for entrypoint in entrypoints:
            while (segment := self.backlog.first_scheduled(entrypoint)) and segment.first <= latest:
                self._wake_segment(segment, latest)

    def _wake_sorted(self, entrypoints: Iterable[str], latest: Key) -> None:
        """Let the segments that know their places in line stand there, if all of their jobs are due."""
        turned = self.turns.entrypoints
        due, waiting = list[Segment](), list[Segment]()
        for entrypoint in entrypoints:
            for segment in self.backlog.line(_SCHEDULED, entrypoint) if entrypoint not in turned else ():
                if segment.in_line is not None and segment.last <= latest:
                    first, last = segment.in_line
                    due.append(segment)
                    waiting.append(replace(segment, status=_QUEUED, first=first, last=last, in_line=None))
        if due:
            self.backlog = self.backlog.replaced(due, waiting)
            self.changes += len(due)

    def _wake_segment(self, segment: Segment, latest: Key) -> None:
        """Let as many due jobs of a segment stand in line as queue.json has room for."""
        ready, settings = self._table.ready, self.settings
        # Those that wait for room for their limit keys have some room of their own.
        parked_jobs, parked_bytes = parked_max(settings)
        jobs_max = settings.hot_jobs_max - ready.count() + min(len(ready.aside), parked_jobs)
        bytes_max = settings.hot_bytes_max - ready.size + min(ready.aside_size, parked_bytes)
        if jobs_max <= 0 or bytes_max <= 0:
            raise self.shelf.sort_out(segment, latest)
        taken, left = self.shelf.take(segment, jobs_max, bytes_max, latest)
        # Where the first ones have left, the next one may not be due.
        self._bring_in(segment, [self._woken(job, latest) for job in taken], left)

    def _woken(self, job: Job, latest: Key) -> Job:
        return self._in_line(replace(job, status=_QUEUED)) if key_of(job) <= latest else job

    def _due_segments(self, wanted: Wanted, latest: Key, now: datetime) -> list[Segment]:
        """Of each entrypoint of which a job may begin, the first segment of scheduled jobs, if it is due."""
        first = self.backlog.first_scheduled(wanted)
        if first is None or first.first > latest:
            return []
        firsts = [segment for segment in self.backlog.firsts_scheduled(wanted) if segment.first <= latest]
        if not self._is_limited:
            return firsts
        return [segment for segment in firsts if self._dispatcher.room(segment.entrypoint, now)]

    def set_limits(self, limits: Limits) -> None:
        """Go by other limits from now on; what runs goes on."""
        if limits != self.limits:
            self._go_by(limits)
            self.buckets.keep_only(limits)
            self.changes += 1

    def _applied(self, asked: datetime) -> datetime:
        """When a claim begins: it may have waited for commits in which the jobs before it were finished."""
        return max(asked, self.applied_at or asked)

    def _next(self, wanted: Wanted, now: datetime) -> Job | None:
        if self._table.turned.left:
            self.turns.forget(self._table.turned, self.backlog)
        return self._next_allowed(wanted, now) if self._is_governed else self._next_ready(wanted)

    @property
    def _is_governed(self) -> bool:
        return self._is_limited or self.backlog.has_key_lines or bool(self.turns)

    def _next_ready(self, wanted: Wanted) -> Job | None:
        while True:
            job = self._table.ready.first(wanted)
            segment = self.backlog.first(wanted)
            if segment is None or (job is not None and key_of(job) < segment.first):
                return job
            try:
                self._bring_some_in(segment)
            except SegmentNeededError:
                upcoming = self.backlog.upcoming(wanted, _SEGMENTS_AT_ONCE)
                raise SegmentNeededError([one for one in upcoming if one not in self.shelf]) from None

    def _next_allowed(self, wanted: Wanted, now: datetime) -> Job | None:
        """The next one where limits, pauses or tenants have a say."""
        while True:
            head = self._dispatcher.next(wanted, now, self.backlog)
            if head is None or isinstance(head, Job):
                return head
            # What comes in may have to wait here, and that must not be without end.
            self._make_room(0)
            segment = head.segment if isinstance(head, PassedJob) else head
            try:
                if isinstance(head, PassedJob):
                    self._bring_one_in(head)
                elif head.limit_key is None and self._is_crowded:
                    self._dispatcher.pass_over(head, self.shelf.limit_keys(head))
                else:
                    self._bring_some_in(head)
            except SegmentNeededError:
                line = self.backlog.upcoming(segment.entrypoint, _SEGMENTS_AT_ONCE)
                others = [one for one in line if one is not segment and one not in self.shelf]
                raise SegmentNeededError([segment, *others]) from None

    def _next_unexpired(self, job: Job | None, wanted: Wanted, now: datetime) -> Job | None:
        """From this job on, the next one whose time is not over; those before it are finished."""
        for _ in range(_EXPIRED_AT_ONCE):
            if job is None or not is_expired(job, now):
                return job
            self._expire(Holder(job), now)
            try:
                job = self._next(wanted, now)
            except SegmentNeededError as error:
                raise MoreExpiredError from error
        raise MoreExpiredError

    def _may_wake(self, wanted: Wanted, now: datetime) -> bool:
        """Whether a scheduled job is due that may begin."""
        latest = (due_key(now)[0], _LAST, _LAST)
        job = self._table.due.first()
        # One in the file is brought into line by whoever comes, and is due no more.
        return (job is not None and key_of(job) <= latest) or bool(self._due_segments(wanted, latest, now))

    def _go_by(self, limits: Limits) -> None:
        self.limits, self._is_limited = limits, bool(limits)
        self._table.ready.reset()
        self._dispatcher = Dispatcher(self._table, self.buckets, limits)
