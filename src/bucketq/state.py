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
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, encode_archived, kept_payloads, line_of
from bucketq.backlog import Backlog, SegmentNeededError, at_hand, overflow
from bucketq.batches import Batches
from bucketq.dependents import is_cancelled_by, placed, reason_for, without
from bucketq.election import Election, Leader, Result
from bucketq.ending import Ending
from bucketq.errors import (
    ClaimLostError,
    ConfigurationError,
    JobNotFoundError,
    QueueFullError,
    StorageError,
)
from bucketq.job import STALE, Attempt, Claim, Job, JobStatus, Outcome
from bucketq.jobline import line_bytes
from bucketq.ledger import Ledger
from bucketq.loads import LoadMark, Loads
from bucketq.object_name import version_of
from bucketq.segment import Key, Segment, due_key, due_moment, key_of
from bucketq.sessions import SessionMark, Sessions
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.signatures import Signatures
from bucketq.table import JobTable

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
        batches: Batches | None = None,
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
        self.batches = batches or Batches()
        self.shelf = Shelf()
        self.settings = Settings()
        # Whether finished jobs go to the archive; else they are only counted.
        self.archives = False
        self.size = 0
        self.changes = 0
        self._table = JobTable(jobs)
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
        """When the next scheduled job is due; None if there is none."""
        job, segment = self._table.due.first(), self.backlog.first_scheduled()
        moments = [job.run_at] if job is not None and job.run_at is not None else []
        return min([*moments, due_moment(segment.first)] if segment else moments, default=None)

    def claimable(self, entrypoint: str | None, now: datetime) -> int:
        """About how many jobs a dequeue would find; 0 if certainly none."""
        latest = (due_key(now)[0], _LAST, _LAST)
        job, segment = self._table.due.first(), self.backlog.first_scheduled(entrypoint)
        firsts = [*([key_of(job)] if job else ()), *([segment.first] if segment else ())]
        return self.waiting(entrypoint) + any(first <= latest for first in firsts)

    def spillable(self) -> int:
        """How many jobs in queue.json itself could stand in segments."""
        return sum(map(self._table.count, _SPILLABLE))

    @property
    def live_size(self) -> int:
        """About the bytes of queue.json without what is on its way to the archive."""
        return self.size - self.ledger.size

    def overflow(self) -> list[list[Job]]:
        """The jobs that had better stand in segments, for each line."""
        return overflow(self.with_status(*_SPILLABLE), self.settings, self._lines)

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

    def enqueue(self, job: Job, fates: dict[str, bool | None] | None = None) -> Job:
        """Put a new job at the end of its priority's line, or aside while it waits for others.

        `fates` tells whether those of the others succeeded that are in the queue no more. Raises
        ParentsUnknownError for others of that kind. What is found out goes there, for the next job.
        """
        if self._table.get(job.id):
            raise ConfigurationError(f"job {job.id} is in the queue already")
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
        moved = [segment.moved(self.sequence) for segment in segments]
        names = [segment.name for segment in (*self.backlog, *moved)]
        if len(set(names)) < len(names):
            raise ConfigurationError("a segment is in the queue already")
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

    def wake(self, now: datetime, entrypoint: str | None = None) -> None:
        """Let scheduled jobs whose time has come stand in line, of very many not all at once.

        Segments are looked into for one entrypoint, or for all.
        """
        latest = (due_key(now)[0], _LAST, _LAST)
        while True:
            job, segment = self._table.due.first(), self.backlog.first_scheduled(entrypoint)
            if segment is not None and segment.first <= latest and (not job or segment.first < key_of(job)):
                if self._table.ready.count() >= self.settings.hot_jobs_max:
                    return
                self._bring_some_in(segment, latest)
            elif job is not None and key_of(job) <= latest:
                self._put(replace(job, status=_QUEUED))
            else:
                return

    def dequeue(
        self, entrypoint: str | None, token: str, now: datetime, worker: str | None = None
    ) -> Job | None:
        """Claim the next waiting job: lowest priority first, then first in, first out."""
        job = self._next_ready(entrypoint)
        if job is None:
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
        return claimed

    def ack(self, claim: Claim, now: datetime, result: bytes = b"") -> None:
        """The work is done: the job leaves the queue. `result` is JSON, for the archive."""
        job = self._held(claim)
        self._remove(job)
        self._finish(job, _COMPLETED, now, None, result)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)
        self.completed_total += 1

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
        if job.failures >= job.max_attempts:
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
        if job.crashes < job.max_crashes:
            return self._end_attempt(job, attempt, STALE, _QUEUED)
        return self._end_attempt(job, attempt, STALE, JobStatus.DEAD)

    def release(self, claim: Claim, left_at: datetime | None = None) -> None:
        """Undo a claim: it costs no attempt. Its worker left, or (without a time) never heard of it."""
        job = self._held(claim)
        if left_at is not None:
            job = replace(job, history=_with(job.history, _attempt(job, left_at, Outcome.RELEASED, None)))
        self._put(_unclaimed(replace(job, attempts=job.attempts - 1), _QUEUED, job.error))

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
        self.dropped += [segment.name for segment in old]
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
        return payloads | {segment.name for segment in self.backlog}

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
                # Only a dead job still needs its own.
                needed = {job.payload_object for job in self._table}
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
        return self.attempt(operation)

    def attempt(self, operation: Callable[["QueueState"], T]) -> T:
        """Run a part of an operation; if it raises, the state is as it was before that part."""
        save_point = self._table.save_point()
        sequence, changes, size = self.sequence, self.changes, self.size
        backlog, loads, dropped = self.backlog, self.loads, len(self.dropped)
        batches = self.batches
        finished = len(self.ledger.finished)
        totals = self.enqueued_total, self.completed_total, self.dead_total, self.cancelled_total
        try:
            return operation(self)
        except BaseException:
            self._table.roll_back(save_point)
            self.sequence, self.changes, self.size = sequence, changes, size
            self.backlog, self.loads = backlog, loads
            self.batches = batches
            self.ledger.cut(finished)
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

    def _end_attempt(self, job: Job, attempt: Attempt, error: str | None, status: JobStatus) -> Job:
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
            claimed_at = _claimed_at(job) if job.status is _IN_PROGRESS else None
            began_at = claimed_at or job.created_at
            finished_at = now if now > began_at else began_at
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
        self.cancelled_total += 1
        self._finish(job, FinishedStatus.CANCELLED, now, reason)
        if job.payload_object is not None and not self._keeps_payloads:
            self.dropped.append(job.payload_object)

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
                        self._put(without(child, (job.id,), now))
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

    def _make_room(self, size: int) -> None:
        self.size += size
        # A few batches on their way to the archive are no work; many are, if they cannot get there.
        on_the_way = min(self.ledger.size, 4 * self.settings.archive_bytes_max)
        if self.size - on_the_way > self.settings.queue_bytes_max:
            raise QueueFullError(
                f"queue.json would pass {self.settings.queue_bytes_max} bytes (queue_bytes_max); it holds"
                f" {self._table.count(JobStatus.IN_PROGRESS)} jobs in progress and"
                f" {self._table.count(JobStatus.DEAD)} dead ones."
                " New work is refused until some is finished."
            )

    def _add(self, job: Job) -> Job:
        self.sequence += 1
        job = replace(job, sequence=self.sequence)
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
        waiting = {(_QUEUED, entrypoint) for entrypoint in self._table.ready.entrypoints}
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

    def _bring_some_in(self, segment: Segment, until: Key | None = None) -> None:
        # Half of what stays, so that it is not soon sent back.
        jobs_max, bytes_max = (limit // 2 for limit in at_hand(self.settings, self._lines))
        limits = [key for key in (until, self.backlog.follower(segment)) if key is not None]
        taken, left = self.shelf.take(segment, jobs_max, bytes_max, min(limits, default=None))
        self._bring_in(segment, taken, left)

    def _bring_in(self, segment: Segment, jobs: list[Job], left: Segment | None) -> None:
        self.backlog = self.backlog.replaced([segment], [left] if left else [])
        if left is None:
            self.dropped.append(segment.name)
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
