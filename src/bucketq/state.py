"""QueueState: the queue as a pure state machine.

    enqueue         dequeue               ack
    ────────▶ QUEUED ──────▶ IN_PROGRESS ─────▶ gone (completed)
      │         ▲                 │
      │ later   │ attempts left   │ nack, stale
      │         ├─────────────────┤
      │         │ due             │ not yet
      └───▶ SCHEDULED ◀───────────┤
                                  │ none left
                                  └───────────▶ DEAD

A job that waits for others is BLOCKED first (see `dependents`).

One method a transition. No I/O, clock or chance in here: ids and times are arguments.
Every transition costs O(log n); `apply` makes an operation of several transitions
all-or-nothing, by an undo log of the jobs it touched.

Waiting jobs may also stand in the segments of the backlog. They come in when it is their
turn, from the shelf, where somebody has put the segment's content. A transition that needs
a segment which is not on the shelf raises SegmentNeededError and is to be tried again later.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, encode_archived, kept_payloads, line_of, payloads_of_dead
from bucketq.backlog import Backlog, SegmentNeededError, at_hand, at_hand_of_key, overflow
from bucketq.batches import Batches
from bucketq.dependents import is_cancelled_by, placed, reason_for, without
from bucketq.dispatch import Dispatcher
from bucketq.election import Election, Leader, Result
from bucketq.ending import Ending
from bucketq.errors import (
    ClaimLostError,
    ConfigurationError,
    JobCancelledError,
    JobNotFoundError,
    KeyTakenError,
    QueueFullError,
    ScheduleNotFoundError,
    StorageError,
)
from bucketq.expiry import MoreExpiredError, is_expired, timed_out
from bucketq.job import STALE, Attempt, Claim, Job, JobStatus, Outcome
from bucketq.jobline import line_bytes
from bucketq.journal import Journal
from bucketq.kept_keys import KeptKeys
from bucketq.ledger import Ledger
from bucketq.limits import Buckets, Limits, StoredBuckets
from bucketq.loads import LoadMark, Loads
from bucketq.new_job import IfExists
from bucketq.object_name import version_of
from bucketq.schedule import Schedule, Schedules
from bucketq.segment import Key, Segment, due_key, due_moment, key_of
from bucketq.sessions import SessionMark, Sessions
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.signatures import Signatures
from bucketq.table import JobTable
from bucketq.turns import TurnLine, Turns
from bucketq.unique import Holder, holder_of

T = TypeVar("T")

# Looking a member up in its class is slow.
_COMPLETED = FinishedStatus.COMPLETED
_QUEUED = JobStatus.QUEUED
_IN_PROGRESS = JobStatus.IN_PROGRESS
# Those that can wait elsewhere.
_SPILLABLE = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.DEAD)
_LAST = 1 << 62

_TICK = timedelta(microseconds=1)
_HISTORY_MAX = 8
_HISTORY_ERROR_MAX = 500
# What a claim adds to a job's line, about.
_CLAIM_BYTES = 140
_SEGMENT_LINE_BYTES = 300
_ID_BYTES = 40
# How many segments are read together when one is needed.
_SEGMENTS_AT_ONCE = 8
# A segment that so many jobs have left one by one is given up: each costs in every commit.
_HOLES_MAX = 500
# So many expired jobs are finished in one operation; the others follow.
_EXPIRED_AT_ONCE = 1000


class Stats(NamedTuple):
    """Counts at one version: jobs now in each status, and totals since the beginning.

    `cancelled_total` counts the jobs that ended without being done: cancelled, replaced, expired.
    """

    queued: int
    in_progress: int
    dead: int
    enqueued_total: int
    completed_total: int
    dead_total: int
    scheduled: int = 0
    blocked: int = 0
    cancelled_total: int = 0


class QueueState:
    """All jobs of a queue, and what has happened to those that are gone.

    `version` grows by one with every commit. `changes` counts changes, so that "nothing
    happened" is seen without comparing. `dropped` collects the names of objects that are not
    referred to any more; `size` is about the bytes of queue.json.
    """

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        *,
        version: int = 0,
        sequence: int = 0,
        enqueued_total: int = 0,
        completed_total: int = 0,
        dead_total: int = 0,
        cancelled_total: int = 0,
        signatures: Signatures | None = None,
        collected_version: int = 0,
        backlog: Backlog | None = None,
        ledger: Ledger | None = None,
        epoch: int = 0,
        leader: Leader | None = None,
        sessions: Sessions | None = None,
        loads: Loads | None = None,
        kept_keys: KeptKeys | None = None,
        batches: Batches | None = None,
        schedules: Schedules | None = None,
        limits: Limits | None = None,
        buckets: StoredBuckets | None = None,
        turns: Mapping[str, Mapping[int, TurnLine]] | None = None,
    ) -> None:
        self.version = version
        self.sequence = sequence
        self.enqueued_total = enqueued_total
        self.completed_total = completed_total
        self.dead_total = dead_total
        self.cancelled_total = cancelled_total
        self.signatures = signatures or Signatures()
        self.collected_version = collected_version
        self.backlog = backlog or Backlog()
        self.ledger = ledger or Ledger()
        # The number of the last election, and who won it, while that broker leads.
        self.epoch = epoch
        self.leader = leader
        self.sessions = sessions or Sessions()
        self.loads = loads or Loads()
        self.kept_keys = kept_keys or KeptKeys()
        self.batches = batches or Batches()
        self.schedules = schedules or Schedules()
        self.shelf = Shelf()
        self.settings = Settings()
        # Whether finished jobs go to the archive; else they are only counted.
        self.archives = False
        self.size = 0
        self.changes = 0
        self._table = JobTable(jobs)
        self._journal = Journal()
        self.limits = limits or Limits()
        # Asking them is slow, and every dequeue asks.
        self._is_limited = bool(self.limits)
        self.buckets = Buckets(self._journal, buckets)
        self.turns = Turns(self._journal, turns)
        self._dispatcher = Dispatcher(self._table, self.buckets, self.limits)
        self.dropped: list[str] = []
        # Finished jobs of which others still have to be told.
        self._news: deque[tuple[Job, bool]] = deque()

    # Looking

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job in queue.json itself, in the order of enqueueing."""
        return self.with_status(*JobStatus)

    def with_status(self, *statuses: JobStatus) -> tuple[Job, ...]:
        """Every job of these statuses in queue.json itself, in the order of enqueueing."""
        return self._table.with_status(*statuses)

    def queued_jobs(self, entrypoint: str | None = None) -> tuple[Job, ...]:
        """The waiting jobs in queue.json itself, in the order in which they will be dequeued."""
        return self._table.queued(entrypoint)

    def in_progress_jobs(self) -> tuple[Job, ...]:
        """The jobs that a worker holds, in the order of enqueueing."""
        return self.with_status(JobStatus.IN_PROGRESS)

    def dead_jobs(self) -> tuple[Job, ...]:
        """The jobs that used up their attempts, in the order of enqueueing."""
        return self.with_status(JobStatus.DEAD)

    def find(self, job_id: str) -> Job | None:
        """The job with this id in queue.json itself, or None; it may still be in the backlog."""
        return self._table.get(job_id)

    def look_up(self, job_id: str) -> Job | Ending | None:
        """A job as it stands, wherever that is, or how it ended; None if it is archived, or never was."""
        if job := self._table.get(job_id) or self.batches.follower(job_id):
            return job
        if line := line_of(self.ledger.lines(), job_id):
            return Ending.of_line(line)
        found = (self.shelf.find(segment, job_id) for segment in self.backlog.may_hold(job_id))
        return next((job for job in found if job is not None), None)

    @property
    def touched(self) -> dict[str, int]:
        """The ids of jobs that changed, with their sequence; whoever encodes the state empties it."""
        return self._table.touched

    @property
    def stats(self) -> Stats:
        """The counts, without looking at the jobs."""
        return Stats(
            queued=self.waiting(),
            in_progress=self._table.count(JobStatus.IN_PROGRESS),
            dead=self._count(JobStatus.DEAD),
            enqueued_total=self.enqueued_total,
            completed_total=self.completed_total,
            dead_total=self.dead_total,
            scheduled=self._count(JobStatus.SCHEDULED),
            blocked=self._table.count(JobStatus.BLOCKED),
            cancelled_total=self.cancelled_total,
        )

    def waiting(self, entrypoint: str | None = None) -> int:
        """How many jobs wait, of one entrypoint or of all, without looking at them."""
        return self._table.ready.count(entrypoint) + self.backlog.count(_QUEUED, entrypoint)

    def next_due(self) -> datetime | None:
        """When the next scheduled job is due, or a schedule's next tick; None if there is none."""
        job, segment = self._table.due.first(), self.backlog.first_scheduled()
        moments = [job.run_at] if job is not None and job.run_at is not None else []
        moments += [self.schedules.next_at] if self.schedules.next_at is not None else []
        return min([*moments, due_moment(segment.first)] if segment else moments, default=None)

    def claimable(self, entrypoint: str | None, now: datetime) -> int:
        """About how many jobs a dequeue would find; 0 if certainly none."""
        ticks = self.schedules.wakes(entrypoint, now, self._room)
        if self._is_governed:
            found = self._dispatcher.claimable(entrypoint, now, self.backlog)
            return found + (ticks or self._may_wake(entrypoint, now))
        latest = (due_key(now)[0], _LAST, _LAST)
        job, segment = self._table.due.first(), self.backlog.first_scheduled(entrypoint)
        firsts = [*([key_of(job)] if job else ()), *([segment.first] if segment else ())]
        return self.waiting(entrypoint) + (ticks or any(first <= latest for first in firsts))

    def next_refill(self, now: datetime) -> datetime | None:
        """When a job that waits for a rate may begin; None if there is none."""
        return self._dispatcher.next_refill(now) if self.limits else None

    def spillable(self) -> int:
        """How many jobs in queue.json itself could stand in segments."""
        return sum(map(self._table.count, _SPILLABLE))

    @property
    def live_size(self) -> int:
        """About the bytes of queue.json without what is on its way to the archive."""
        return self.size - self.ledger.size

    def overflow(self) -> list[list[Job]]:
        """The jobs that had better stand in segments, for each line."""
        limit_keys = self._dispatcher if self.limits.limit_keys else None
        return overflow(self.with_status(*_SPILLABLE), self.settings, self._lines, limit_keys)

    def upcoming_segments(self) -> list[Segment]:
        """The segments that will soon be needed by those who dequeue here."""
        soon: dict[str, Segment] = {}
        for entrypoint in self._table.ready.asked:
            for segment in self.backlog.upcoming(entrypoint, 2):
                soon[segment.name] = segment
                if segment.count > self.settings.hot_jobs_max:
                    break
        return list(soon.values())

    def is_conserved(self) -> bool:
        """Whether enqueued = live + finished: nothing lost, nothing doubled."""
        stats = self.stats
        live = stats.queued + stats.scheduled + stats.blocked + stats.in_progress
        return self.enqueued_total == live + self.completed_total + self.dead_total + self.cancelled_total

    # Transitions

    def enqueue(
        self, job: Job, if_exists: IfExists = "return", fates: dict[str, bool | None] | None = None
    ) -> Job:
        """Put a new job at the end of its priority's line, or aside while it waits for others.

        Where another job has its unique key, that one may be told instead. `fates` tells whether
        those to wait for succeeded that are in the queue no more. Raises ParentsUnknownError for
        others of that kind. What is found out goes there, for the next job.
        """
        if self._table.get(job.id):
            raise ConfigurationError(f"job {job.id} is in the queue already")
        if job.key is not None and (other := self._make_way(job, job.key, if_exists)) is not None:
            return other
        if job.payload_object is not None:
            self._refuse_collected(job.payload_object)
        self._make_room(line_bytes(job))
        if not job.after:
            return self._add(job)
        known = {} if fates is None else fates
        job, reason = placed(job, lambda parent_id: self._fate(parent_id, known))
        self._make_room(_ID_BYTES * len(job.after))
        job = self._add(job)
        if reason is not None:
            self._cancel(job, reason, job.created_at)
            return replace(job, status=JobStatus.BLOCKED, is_cancelled=True, error=reason)
        return job

    def begin_batch(self, then: Job, total: int) -> None:
        """So many jobs of a batch will be enqueued; when all are finished, another one follows."""
        if self._table.get(then.id) or self.batches.get(then.id):
            raise ConfigurationError(f"job {then.id} is in the queue already")
        if then.payload_object is not None:
            self._refuse_collected(then.payload_object)
        self._make_room(line_bytes(then))
        self.batches = self.batches.begun(then.id, total, then)
        self.changes += 1

    def follow_up(self, batch_id: str, now: datetime) -> None:
        """Enqueue the job that follows a batch, if nothing is left of that."""
        batch = self.batches.get(batch_id)
        if batch is not None and batch.then is not None and not batch.left:
            self.batches = self.batches.followed(batch_id)
            self._add(without(batch.then, (), now))

    def enqueue_segments(self, segments: Iterable[Segment]) -> None:
        """Put the jobs of segments, whose lines count from 1 on, at the end of their priority's line."""
        segments = tuple(segments)
        bases = self.turns.give_segments(segments)
        moved = [segment.moved(self.sequence, base) for segment, base in zip(segments, bases, strict=True)]
        names = [segment.name for segment in (*self.backlog, *moved)]
        if len(set(names)) < len(names):
            raise ConfigurationError("a segment is in the queue already")
        if any(segment.keys for segment in moved):
            raise ConfigurationError("jobs with unique keys are enqueued one by one, not in segments")
        for segment in moved:
            self._refuse_collected(segment.name)
            self._make_room(_SEGMENT_LINE_BYTES)
            self.sequence += segment.count
            self.enqueued_total += segment.count
        self.backlog = self.backlog.replaced((), moved)
        self.changes += 1

    def load(self, name: str, mark: LoadMark) -> None:
        """Note that a part of a bulk load is being enqueued."""
        self.loads = self.loads.remembered(name, mark)
        self.changes += 1

    def put_schedule(self, schedule: Schedule, now: datetime) -> None:
        """Add a schedule, or replace the one of its name."""
        self._make_room(line_bytes(schedule.job))
        self.schedules = self.schedules.put(schedule, now)
        self.changes += 1

    def remove_schedule(self, name: str) -> None:
        """Take a schedule out; what it has enqueued stays."""
        if self.schedules.get(name) is None:
            raise ScheduleNotFoundError(f"there is no schedule {name!r}; `schedules` lists those there are")
        self.schedules = self.schedules.without(name)
        self.changes += 1

    def fire(self, now: datetime) -> None:
        """Enqueue the jobs of the ticks that have come, each once."""
        if self.schedules.is_due(now):
            before = self.schedules
            fired = before.fired(now, lambda job: self.attempt(lambda state: state.enqueue(job)))
            if fired is not before:
                self.schedules = fired
                self.changes += 1

    def wake(self, now: datetime, entrypoint: str | None = None) -> None:
        """Let scheduled jobs whose time has come stand in line, of very many not all at once.

        Segments are looked into for one entrypoint, or for all.
        """
        latest = (due_key(now)[0], _LAST, _LAST)
        while True:
            job, segment = self._table.due.first(), self.backlog.first_scheduled(entrypoint)
            if segment is not None and segment.first <= latest and (not job or segment.first < key_of(job)):
                if self._table.ready.count() - self._dispatcher.parked >= self.settings.hot_jobs_max:
                    return
                self._bring_some_in(segment, latest)
            elif job is not None and key_of(job) <= latest:
                self._put(self._in_line(replace(job, status=_QUEUED)))
            else:
                return

    def dequeue(
        self, entrypoint: str | None, token: str, now: datetime, worker: str | None = None
    ) -> Job | None:
        """Claim the next waiting job: lowest priority first, then first in, first out."""
        job = self._next(entrypoint, now)
        if job is not None and job.expires_at is not None:
            job = self._next_unexpired(job, entrypoint, now)
        if job is None:
            self.changes += self.buckets.set_back(now)
            return None
        if self._table.count(JobStatus.IN_PROGRESS):
            # One claim is always granted: where nothing runs, nothing would ever make room again.
            self._make_room(_CLAIM_BYTES)
        claimed = replace(
            job,
            status=JobStatus.IN_PROGRESS,
            attempts=job.attempts + 1,
            token=token,
            worker=worker,
            # Clocks may differ, but no job is claimed before it was made, or given back.
            claimed_at=max(now, job.history[-1].ended_at if job.history else job.created_at),
            heartbeat_at=now,
        )
        self._put(claimed)
        if self._is_limited:
            self.buckets.take(self.limits, job.entrypoint, job.limit_key, now)
        if job.turn:
            self.turns.serve(job)
        return claimed

    def set_limits(self, limits: Limits) -> None:
        """Go by other limits from now on; what runs goes on."""
        if limits != self.limits:
            self._go_by(limits)
            self.buckets.keep_only(limits)
            self.changes += 1

    def ack(self, claim: Claim, now: datetime, result: bytes = b"") -> None:
        """The work is done: the job leaves the queue. `result` is JSON, for the archive."""
        job = self._held(claim)
        self._remove(job)
        self._finish(job, _COMPLETED, now, None, result)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)
        self.completed_total += 1
        if self.kept_keys:
            self.kept_keys.prune(now)
        if job.key is not None and job.key_for_s:
            self.kept_keys.keep(job.key, job.id, now + timedelta(seconds=job.key_for_s))

    def nack(
        self,
        claim: Claim,
        error: str | None,
        now: datetime,
        retry_at: datetime | None = None,
        trace: str | None = None,
    ) -> Job:
        """The work failed: back to its place in line, at once or later, or dead if no attempt is left."""
        job = self._held(claim)
        attempt = _attempt(job, now, Outcome.FAILED, error, trace)
        if job.failures >= job.max_attempts or is_expired(job, retry_at or now):
            return self._end_attempt(job, attempt, error, JobStatus.DEAD)
        if retry_at is None or retry_at <= now:
            return self._end_attempt(job, attempt, error, _QUEUED)
        return self._end_attempt(replace(job, run_at=retry_at), attempt, error, JobStatus.SCHEDULED)

    def bury(self, claim: Claim, error: str, now: datetime, trace: str | None = None) -> Job:
        """The job can never succeed: dead, whatever attempts are left."""
        job = self._held(claim)
        attempt = _attempt(job, now, Outcome.FAILED, error, trace)
        return self._end_attempt(job, attempt, error, JobStatus.DEAD)

    def heartbeat(
        self, claim: Claim, now: datetime, progress: float | None = None, note: str | None = None
    ) -> None:
        """The worker lives. The stamp always grows, so that a change shows on any clock."""
        job = self._held(claim)
        if job.is_cancelled:
            raise JobCancelledError(job.id)
        previous = job.heartbeat_at
        later = now if previous is None or now > previous else previous + _TICK
        beaten = replace(job, heartbeat_at=later)
        if progress is not None or note is not None:
            progress = job.progress if progress is None else progress
            beaten = replace(beaten, progress=progress, note=job.note if note is None else note)
        self._put(beaten)

    def requeue_stale(self, claim: Claim, now: datetime) -> Job:
        """The worker fell silent. The job may be to blame, so it is not given out without end."""
        job = self._held(claim)
        job = replace(job, crashes=job.crashes + 1)
        attempt = _attempt(job, now, Outcome.STALE, STALE)
        if job.crashes < job.max_crashes and not is_expired(job, now):
            return self._end_attempt(job, attempt, STALE, _QUEUED)
        return self._end_attempt(job, attempt, STALE, JobStatus.DEAD)

    def time_out(self, claim: Claim, now: datetime) -> Job:
        """The attempt has taken longer than its job allows: it failed, whatever its worker is doing."""
        job = self._held(claim)
        error = timed_out(job)
        attempt = _attempt(job, now, Outcome.TIMED_OUT, error)
        is_last = job.failures >= job.max_attempts or is_expired(job, now)
        return self._end_attempt(job, attempt, error, JobStatus.DEAD if is_last else _QUEUED)

    def release(self, claim: Claim, left_at: datetime | None = None) -> None:
        """Undo a claim: it costs no attempt. Its worker left, or (without a time) never heard of it."""
        job = self._held(claim)
        if job.is_cancelled:
            self._end_cancelled(job, left_at or _claimed_at(job), None)
            return
        if left_at is not None:
            job = replace(job, history=_with(job.history, _attempt(job, left_at, Outcome.RELEASED, None)))
        self._put(_unclaimed(replace(job, attempts=job.attempts - 1), _QUEUED, job.error))

    def cancel(self, job_id: str, now: datetime, where: str = "") -> Job | list[Segment]:
        """The job is not wanted any more: gone if it waits; if it runs, its worker will hear of it.

        `where` and the answer are those of `locate`.
        """
        found = self.locate(job_id, where, is_dead=False)
        if isinstance(found, list):
            return found
        cancelled = replace(found.job, is_cancelled=True)
        if found.job.status is JobStatus.IN_PROGRESS:
            if not found.job.is_cancelled:
                self._put(cancelled)
        else:
            self._take_out(found)
            self._give_up(found.job, FinishedStatus.CANCELLED, now, None)
        return cancelled

    def redrive(self, job_id: str, new_id: str, now: datetime, where: str = "") -> Job | list[Segment]:
        """Do a dead job again, as a new one. `where` and the answer are those of `locate`."""
        found = self.locate(job_id, where, is_dead=True)
        if isinstance(found, list):
            return found
        if self._table.get(new_id):
            raise ConfigurationError(f"job {new_id} is in the queue already")
        new = _redriven(found.job, new_id, now)
        if new.key is not None:
            self._make_way(new, new.key, "raise")
        # Its payload was the dead one's, and so was never without a reference.
        self._take_out(found)
        self._make_room(line_bytes(new))
        return self._add(new)

    def discard(self, job_id: str, where: str = "") -> list[Segment]:
        """Forget a dead job. `where` and the answer are those of `locate`, or nothing."""
        found = self.locate(job_id, where, is_dead=True)
        if isinstance(found, list):
            return found
        self._take_out(found)
        payload = found.job.payload_object
        if payload is not None and payload not in self._on_its_way():
            self.dropped.append(payload)
        return []

    def locate(self, job_id: str, where: str, *, is_dead: bool) -> Holder | list[Segment]:
        """The job in queue.json, or in the segment named `where`; or the segments in which it could be.

        Raises JobNotFoundError if there are none, or it is dead and should not be, or should be and
        is not.
        """
        if (job := self._table.get(job_id)) is not None:
            if (job.status is JobStatus.DEAD) is not is_dead:
                raise JobNotFoundError(job_id, f"job {job_id} is {job.status.value}")
            return Holder(job)
        held = self.backlog.may_hold(job_id)
        possible = [segment for segment in held if (segment.status is JobStatus.DEAD) is is_dead]
        if not possible:
            raise JobNotFoundError(job_id)
        for segment in possible:
            if segment.name == where and (job := self.shelf.find(segment, job_id)) is not None:
                return Holder(job, segment)
        return possible

    # The backlog

    def spill(self, segment: Segment, jobs: Iterable[Job]) -> bool:
        """Let a segment stand for these waiting jobs, but for those that moved on meanwhile.

        False if those were most of them: then nothing is changed.
        """
        self._refuse_collected(segment.name)
        still_there, moved_on = list[Job](), list[int]()
        for job in jobs:
            found = self._table.get(job.id)
            if found is job or found == job:
                still_there.append(job)
            else:
                moved_on.append(job.sequence)
        if len(moved_on) > segment.count // 2:
            return False
        for job in still_there:
            self._remove(job)
        left = replace(segment, count=len(still_there), holes=tuple(moved_on))
        self.backlog = self.backlog.replaced((), [left])
        return True

    def merge(self, old: tuple[Segment, ...], new: tuple[Segment, ...]) -> bool:
        """Let segments stand for others that held the same jobs.

        False if a job has left one of those meanwhile: then nothing is changed.
        """
        for segment in new:
            self._refuse_collected(segment.name)
        held = {segment.name: segment for segment in self.backlog}
        if any(held.get(segment.name) != segment for segment in old):
            return False
        self.backlog = self.backlog.replaced([held[segment.name] for segment in old], new)
        self.dropped += [name for segment in old for name in segment.objects]
        self.changes += 1
        return True

    def absorb(self, segment: Segment) -> None:
        """Bring in every job of a segment that is on the shelf."""
        self._bring_in(segment, list(self.shelf.jobs(segment)), None)

    def object_names(self) -> set[str]:
        """The objects that queue.json itself refers to; segments may refer to more payloads."""
        payloads = {job.payload_object for job in self._table if job.payload_object is not None}
        payloads |= {payload for payload, _ in kept_payloads(self.ledger.lines())}
        followers = [batch.then for _, batch in self.batches if batch.then is not None]
        payloads |= {job.payload_object for job in followers if job.payload_object is not None}
        return payloads | {name for segment in self.backlog for name in segment.objects}

    def collect(self, version: int) -> None:
        """From now on let nobody begin to refer to an object from before this version."""
        # Never beyond the next version, or new objects would be refused until that comes.
        version = min(version, self.version + 1)
        if version > self.collected_version:
            self.collected_version = version
            self.changes += 1

    # The archive

    def seal(self) -> None:
        """Fix name and content of the batches that go to the archive next, with the next version."""
        if self.ledger.seal(self.version + 1):
            self.changes += 1

    def is_seal_due(self, now: datetime) -> bool:
        """Whether enough jobs are finished for a batch, or one has waited long enough for it."""
        return (
            len(self.ledger.finished) >= self.settings.archive_jobs_max
            or self.ledger.finished_size >= self.settings.archive_bytes_max
            or self.ledger.is_older_than(now - timedelta(seconds=self.settings.archive_after_s))
        )

    def drop_archived(self, name: str) -> None:
        """Let go of a batch whose object is there."""
        lines = self.ledger.sealed.get(name, ())
        if self.ledger.drop(name):
            self.changes += 1
            if copied := kept_payloads(lines):
                # A dead job still needs its own, and so does the one that does it again.
                needed = {job.payload_object for job in self._table} | self._on_its_way()
                if any(segment.payloads for segment in self.backlog):
                    # Perhaps in a segment; if not, it will be collected.
                    needed |= payloads_of_dead(lines)
                self.dropped += [payload for payload, _ in copied if payload not in needed]

    def expire(self, day: str) -> None:
        """Count the archived jobs of a day out, before they are removed."""
        if self.ledger.expire(day):
            self.changes += 1

    def forget_expired(self, day: str) -> None:
        """The objects of an expired day are removed."""
        if self.ledger.forget(day):
            self.changes += 1

    # Brokers and their clients

    def elect(self, broker: str, address: str, stale: Leader | None, now: datetime) -> Result:
        """Let a broker lead if nobody does, or only one whose heart stands still: `stale`."""
        leader = self.leader
        if leader is not None and leader.broker == broker:
            return Result(Election.ALREADY_LEADER, leader)
        if leader is not None and leader != stale:
            return Result(Election.OTHER_LEADER, leader)
        self.epoch += 1
        self.leader = Leader(epoch=self.epoch, broker=broker, address=address, beat_at=now)
        self.changes += 1
        return Result(Election.ELECTED, self.leader)

    def beat(self, broker: str, now: datetime) -> Leader | None:
        """The leader lives. Who leads is told, should it be another one."""
        if self.leader is not None and self.leader.broker == broker:
            # It always grows, so that a beat shows on any clock.
            beat_at = max(now, self.leader.beat_at + _TICK)
            self.leader = replace(self.leader, beat_at=beat_at)
            self.changes += 1
        return self.leader

    def step_down(self, broker: str) -> None:
        """Nobody leads any more, if this broker did."""
        if self.leader is not None and self.leader.broker == broker:
            self.leader = None
            self.changes += 1

    def remember(self, session: str, number: int, answers: dict[str, Any], now: datetime) -> None:
        """Note that a client's batch is applied, with the answers that could not be told later."""
        mark = SessionMark(number, self.version + 1, int(now.timestamp()), answers)
        self.sessions.remember(session, mark)
        self.changes += 1

    # Operations, commits

    def apply(self, operation: Callable[["QueueState"], T]) -> T:
        """Run an operation; if it raises, the state is as it was before."""
        self._table.begin()
        self.kept_keys.begin()
        self._journal.begin()
        return self.attempt(operation)

    def attempt(self, operation: Callable[["QueueState"], T]) -> T:
        """Run a part of an operation; if it raises, the state is as it was before that part."""
        save_point = self._table.save_point()
        sequence, changes, size = self.sequence, self.changes, self.size
        backlog, loads, dropped = self.backlog, self.loads, len(self.dropped)
        finished, kept_keys = len(self.ledger.finished), self.kept_keys.save_point()
        batches, schedules = self.batches, self.schedules
        limits, journal = self.limits, self._journal.save_point()
        totals = self.enqueued_total, self.completed_total, self.dead_total, self.cancelled_total
        try:
            return operation(self)
        except BaseException:
            self._table.roll_back(save_point)
            if journal != self._journal.save_point() or limits is not self.limits:
                self._journal.roll_back(journal)
                self._go_by(limits)
            self.sequence, self.changes, self.size = sequence, changes, size
            self.backlog, self.loads = backlog, loads
            self.batches, self.schedules = batches, schedules
            self.ledger.cut(finished)
            self.kept_keys.roll_back(kept_keys)
            del self.dropped[dropped:]
            self.enqueued_total, self.completed_total, self.dead_total, self.cancelled_total = totals
            raise

    def stamp(self, writer: str, number: int) -> None:
        """Make this the next version, signed by a writer's commit number."""
        self.version += 1
        self.signatures.sign(writer, number, self.version)

    # Inside

    def _held(self, claim: Claim) -> Job:
        job = self._table.get(claim.job_id)
        if job is None and self.backlog.may_hold(claim.job_id):
            raise ClaimLostError(claim.job_id, "it is not in progress; it waits, or is finished")
        if job is None:
            raise JobNotFoundError(claim.job_id)
        if job.status is not JobStatus.IN_PROGRESS:
            raise ClaimLostError(job.id, f"it is {job.status.value}, not in progress")
        if claim.token is not None and claim.token != job.token:
            raise ClaimLostError(job.id, "another worker holds it now")
        return job

    def _make_way(self, job: Job, key: str, if_exists: IfExists) -> Job | None:
        """Let a job have a unique key; or tell which other one it is that has it."""
        if (kept := self.kept_keys.get(key, job.created_at)) is not None:
            raise KeyTakenError(
                kept.job_id,
                f"the key {key!r} was that of job {kept.job_id}, which is finished; it is kept until"
                f" {kept.until:%Y-%m-%dT%H:%M:%SZ} (key_for)",
            )
        found = holder_of(key, self._table, self.backlog, self.shelf)
        if found is None or if_exists == "return":
            return found and found.job
        status = found.job.status
        if if_exists == "raise" or status is JobStatus.IN_PROGRESS:
            hint = "" if if_exists == "raise" else "; it cannot be replaced while it runs"
            raise KeyTakenError(
                found.job.id, f"the key {key!r} is that of job {found.job.id}, which is {status.value}{hint}"
            )
        self._take_out(found)
        self._give_up(found.job, FinishedStatus.CANCELLED, job.created_at, f"replaced by {job.id}")
        return None

    def _take_out(self, found: Holder) -> None:
        job, segment = found
        if segment is None:
            self._remove(job)
            return
        left = self.shelf.without(segment, job)
        self.backlog = self.backlog.replaced([segment], [left] if left else [])
        self.changes += 1
        if left is None:
            self.dropped += segment.objects
        elif len(left.holes) > _HOLES_MAX:
            self.absorb(left)

    def _give_up(self, job: Job, status: FinishedStatus, now: datetime, reason: str | None) -> None:
        """A job that was taken out ends without being done."""
        self.cancelled_total += 1
        self._finish(job, status, now, reason)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)

    def _end_cancelled(self, job: Job, now: datetime, error: str | None) -> Job:
        self._remove(job)
        self._give_up(job, FinishedStatus.CANCELLED, now, error)
        return _unclaimed(job, _QUEUED, error)

    def _on_its_way(self) -> set[str | None]:
        """The payloads that the archive has yet to copy."""
        return {payload for payload, _ in kept_payloads(self.ledger.lines())}

    def _end_attempt(self, job: Job, attempt: Attempt, error: str | None, status: JobStatus) -> Job:
        if job.is_cancelled:
            return self._end_cancelled(job, attempt.ended_at, error)
        ended = replace(_unclaimed(job, status, error), history=_with(job.history, attempt))
        self._put(ended)
        if status is JobStatus.DEAD:
            self.dead_total += 1
            self._finish(job, FinishedStatus.DEAD, attempt.ended_at, error)
        return ended

    def _finish(
        self, job: Job, status: FinishedStatus, now: datetime, error: str | None, result: bytes = b""
    ) -> None:
        if self.archives:
            # One that ends while it waits is in nobody's hands.
            claimed_at = _claimed_at(job) if job.status is _IN_PROGRESS else None
            since = claimed_at or (job.history[-1].ended_at if job.history else job.created_at)
            finished_at = now if now > since else since
            line = encode_archived(
                job, status, claimed_at, finished_at, error, result, self.settings.archive_payloads
            )
            self.ledger.add(finished_at, line)
            self.size += len(line)
        if job.batch is not None or job.id in self._table.dependents.children:
            self._tell(job, status is _COMPLETED, now)

    def _cancel(self, job: Job, reason: str, now: datetime) -> None:
        """End a job that nobody holds: it is not to be done."""
        self._remove(job)
        self._give_up(job, FinishedStatus.CANCELLED, now, reason)

    def _tell(self, job: Job, succeeded: bool, now: datetime) -> None:
        """Count a finished job out of its batch, and let those know that wait for it."""
        self._news.append((job, succeeded))
        if len(self._news) > 1:
            return  # the first one's teller comes to it: a long chain needs no deep stack
        try:
            while self._news:
                job, succeeded = self._news[0]
                if job.batch is not None:
                    self.batches = self.batches.counted(job, succeeded=succeeded)
                    self.follow_up(job.batch, now)
                for child_id in self._table.dependents.of(job.id):
                    child = self._table.get(child_id)
                    assert child is not None
                    if is_cancelled_by(child, succeeded=succeeded):
                        self._cancel(child, reason_for(job.id), now)
                    else:
                        self._put(self._in_line(without(child, (job.id,), now)))
                self._news.popleft()
        finally:
            self._news.clear()

    def _fate(self, job_id: str, known: dict[str, bool | None]) -> bool | None:
        """Whether a job has succeeded; None while that is open. Raises JobNotFoundError."""
        job = self._table.get(job_id)
        if job is None and job_id in known:
            return known[job_id]
        found = job or self.look_up(job_id)
        if found is None and self.archives:
            raise JobNotFoundError(job_id)
        match found:
            case Job():
                known[job_id] = False if found.status is JobStatus.DEAD else None
            case Ending():
                known[job_id] = found.succeeded
            case None:
                # Nobody can tell any more.
                known[job_id] = True
        return known[job_id]

    @property
    def _keeps_payloads(self) -> bool:
        return self.archives and self.settings.archive_payloads

    def _refuse_collected(self, name: str) -> None:
        version = version_of(name)
        if version is None or version < self.collected_version:
            raise StorageError(
                f"object {name} was begun so long ago that it may have been collected as garbage"
                " (collect_after_s). Nothing was changed; do it again, in less time."
            )

    @property
    def _room(self) -> int:
        # A few batches on their way to the archive are no work; many are, if they cannot get there.
        on_the_way = min(self.ledger.size, 4 * self.settings.archive_bytes_max)
        return self.settings.queue_bytes_max - self.size + on_the_way

    def _make_room(self, size: int) -> None:
        self.size += size
        if self._room < 0:
            raise QueueFullError(
                f"queue.json would pass {self.settings.queue_bytes_max} bytes (queue_bytes_max); it holds"
                f" {self._table.count(JobStatus.IN_PROGRESS)} jobs in progress and"
                f" {self._table.count(JobStatus.DEAD)} dead ones."
                " New work is refused until some is finished."
            )

    def _add(self, job: Job) -> Job:
        self.sequence += 1
        job = self._in_line(replace(job, sequence=self.sequence, turn=0))
        self._put(job)
        self.enqueued_total += 1
        return job

    def _put(self, job: Job) -> None:
        self._table.put(job)
        self.changes += 1

    def _remove(self, job: Job) -> None:
        self._table.remove(job)
        self.changes += 1

    @property
    def _lines(self) -> int:
        waiting = {(_QUEUED, entrypoint, None) for entrypoint in self._table.ready.entrypoints}
        return max(1, len(waiting | {*self.backlog.lines}))

    def _count(self, status: JobStatus) -> int:
        return self._table.count(status) + self.backlog.count(status)

    def _next_ready(self, entrypoint: str | None) -> Job | None:
        while True:
            job = self._table.ready.first(entrypoint)
            segment = self.backlog.first(entrypoint)
            if segment is None or (job is not None and key_of(job) < segment.first):
                return job
            try:
                self._bring_some_in(segment)
            except SegmentNeededError:
                upcoming = self.backlog.upcoming(entrypoint, _SEGMENTS_AT_ONCE)
                raise SegmentNeededError([one for one in upcoming if one not in self.shelf]) from None

    def _next_unexpired(self, job: Job | None, entrypoint: str | None, now: datetime) -> Job | None:
        """From this job on, the next one whose time is not over; those before it are finished."""
        for _ in range(_EXPIRED_AT_ONCE):
            if job is None or not is_expired(job, now):
                return job
            self._expire(job, now)
            try:
                job = self._next(entrypoint, now)
            except SegmentNeededError as error:
                raise MoreExpiredError from error
        raise MoreExpiredError

    def _expire(self, job: Job, now: datetime) -> None:
        if job.attempts:
            # It was tried, and what would have been another try comes too late.
            self._put(replace(job, status=JobStatus.DEAD))
            self.dead_total += 1
            self._finish(job, FinishedStatus.DEAD, now, job.error)
            return
        self._remove(job)
        self._give_up(job, FinishedStatus.EXPIRED, now, job.error)

    def _next(self, entrypoint: str | None, now: datetime) -> Job | None:
        return self._next_allowed(entrypoint, now) if self._is_governed else self._next_ready(entrypoint)

    @property
    def _is_governed(self) -> bool:
        return self._is_limited or self.backlog.has_key_lines or bool(self.turns)

    def _next_allowed(self, entrypoint: str | None, now: datetime) -> Job | None:
        """The next one where limits, pauses or tenants have a say."""
        while True:
            head = self._dispatcher.next(entrypoint, now, self.backlog)
            if head is None or isinstance(head, Job):
                return head
            # What is in it may have to wait here, and that must not be without end.
            self._make_room(0)
            try:
                self._bring_some_in(head)
            except SegmentNeededError:
                upcoming = self.backlog.upcoming(head.entrypoint, _SEGMENTS_AT_ONCE)
                others = [one for one in upcoming if one is not head and one not in self.shelf]
                raise SegmentNeededError([head, *others]) from None

    def _may_wake(self, entrypoint: str | None, now: datetime) -> bool:
        """Whether a scheduled job is due that may begin."""
        latest = (due_key(now)[0], _LAST, _LAST)
        heads = [self._table.due.first(), *self.backlog.firsts_scheduled()]
        return any(
            (key_of(head) if isinstance(head, Job) else head.first) <= latest
            and entrypoint in (None, head.entrypoint)
            and self._dispatcher.room(head.entrypoint, now) > 0
            for head in heads
            if head is not None
        )

    def _in_line(self, job: Job) -> Job:
        """A job that comes into line, with its turn."""
        if job.status is not _QUEUED or job.turn or not (self.turns or job.tenant is not None):
            return job
        return replace(job, turn=self.turns.next(job.entrypoint, job.priority, job.tenant))

    def _go_by(self, limits: Limits) -> None:
        self.limits, self._is_limited = limits, bool(limits)
        self._table.ready.reset()
        self._dispatcher = Dispatcher(self._table, self.buckets, limits)

    def _bring_some_in(self, segment: Segment, until: Key | None = None) -> None:
        # Half of what stays, so that it is not soon sent back.
        jobs_max, bytes_max = (limit // 2 for limit in at_hand(self.settings, self._lines))
        if segment.limit_key is not None:
            jobs_max = min(jobs_max, at_hand_of_key(self.settings) // 2)
        limits = [key for key in (until, self.backlog.follower(segment)) if key is not None]
        taken, left = self.shelf.take(segment, jobs_max, bytes_max, min(limits, default=None))
        self._bring_in(segment, taken, left)

    def _bring_in(self, segment: Segment, jobs: list[Job], left: Segment | None) -> None:
        self.backlog = self.backlog.replaced([segment], [left] if left else [])
        if left is None:
            self.dropped += segment.objects
        for job in jobs:
            if self._table.get(job.id) is not None:
                # Somebody enqueued an id twice while this one was out of sight: it is one job.
                if segment.status is not JobStatus.DEAD:
                    self.enqueued_total -= 1
                continue
            self._put(job)
            self.size += line_bytes(job)


def _unclaimed(job: Job, status: JobStatus, error: str | None) -> Job:
    return replace(
        job,
        status=status,
        error=error,
        token=None,
        worker=None,
        claimed_at=None,
        heartbeat_at=None,
        progress=None,
        note=None,
    )


def _redriven(dead: Job, new_id: str, now: datetime) -> Job:
    # What was said of its time, its turn and the jobs before it is over.
    return Job(
        id=new_id,
        entrypoint=dead.entrypoint,
        payload=dead.payload,
        payload_object=dead.payload_object,
        payload_size=dead.payload_size,
        priority=dead.priority,
        created_at=now,
        max_attempts=dead.max_attempts,
        max_crashes=dead.max_crashes,
        timeout_s=dead.timeout_s,
        key=dead.key,
        key_for_s=dead.key_for_s,
        tenant=dead.tenant,
        limit_key=dead.limit_key,
        redrive_of=dead.id,
    )


def _with(history: tuple[Attempt, ...], attempt: Attempt) -> tuple[Attempt, ...]:
    return (*history[:1], *history[1:][-_HISTORY_MAX:], attempt)


def _attempt(
    job: Job, now: datetime, outcome: Outcome, error: str | None, trace: str | None = None
) -> Attempt:
    claimed_at = _claimed_at(job)
    return Attempt(
        claimed_at=claimed_at,
        ended_at=max(now, claimed_at),
        outcome=outcome,
        worker=job.worker,
        # It is rewritten with every commit, so the history keeps the beginning only.
        error=error and error[:_HISTORY_ERROR_MAX],
        trace=trace,
    )


def _claimed_at(job: Job) -> datetime:
    # Files of jqueue know no time of claiming.
    return job.claimed_at or job.heartbeat_at or job.created_at
