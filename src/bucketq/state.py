"""QueueState: the queue as a pure state machine.

    enqueue         dequeue               ack
    ────────▶ QUEUED ──────▶ IN_PROGRESS ─────▶ gone (completed)
                ▲                 │
                │ attempts left   │ nack, stale
                └─────────────────┤
                                  │ none left
                                  └───────────▶ DEAD

One method a transition. No I/O, clock or chance in here: ids and times are arguments.
Every transition costs O(log n); `apply` makes an operation of several transitions
all-or-nothing, by an undo log of the jobs it touched.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from bucketq.errors import ClaimLostError, ConfigurationError, JobNotFoundError
from bucketq.job import Claim, Job, JobStatus

T = TypeVar("T")

WRITERS_MAX = 64
_TICK = timedelta(microseconds=1)
_HEAP_SLACK = 64


class Mark(NamedTuple):
    """The last commit of a writer, and the version of the state that it made."""

    number: int
    version: int


class Stats(NamedTuple):
    """Counts at one version: jobs now in each status, and totals since the beginning."""

    queued: int
    in_progress: int
    dead: int
    enqueued_total: int
    completed_total: int
    dead_total: int


class QueueState:
    """All jobs of a queue, and what has happened to those that are gone.

    `version` grows by one with every commit. `touched` collects the ids of jobs that
    changed, with their sequence; whoever encodes the state empties it. `changes` counts changes, so that
    "nothing happened" is seen without comparing.
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
        writers: dict[str, Mark] | None = None,
        forgotten_version: int = 0,
    ) -> None:
        self.version = version
        self.sequence = sequence
        self.enqueued_total = enqueued_total
        self.completed_total = completed_total
        self.dead_total = dead_total
        self.writers = writers or {}
        self.forgotten_version = forgotten_version
        self.changes = 0
        self._jobs = {job.id: job for job in jobs}
        self._queued = self._in_progress = self._dead = 0
        self._waiting: Counter[str] = Counter()
        for job in self._jobs.values():
            self._count(job, 1)
        self._ready: dict[str | None, list[tuple[int, int, str]]] = {}
        self._undo: list[tuple[str, Job | None]] = []
        self.touched: dict[str, int] = {}

    # Looking

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job in the queue, in the order of enqueueing."""
        return tuple(sorted(self._jobs.values(), key=lambda job: job.sequence))

    def queued_jobs(self, entrypoint: str | None = None) -> tuple[Job, ...]:
        """The waiting jobs, in the order in which they will be dequeued."""
        waiting = (
            job
            for job in self._jobs.values()
            if job.status is JobStatus.QUEUED and entrypoint in (None, job.entrypoint)
        )
        return tuple(sorted(waiting, key=lambda job: (job.priority, job.sequence)))

    def in_progress_jobs(self) -> tuple[Job, ...]:
        """The jobs that a worker holds, in the order of enqueueing."""
        return self._with_status(JobStatus.IN_PROGRESS)

    def dead_jobs(self) -> tuple[Job, ...]:
        """The jobs that used up their attempts, in the order of enqueueing."""
        return self._with_status(JobStatus.DEAD)

    def find(self, job_id: str) -> Job | None:
        """The job with this id, or None."""
        return self._jobs.get(job_id)

    @property
    def stats(self) -> Stats:
        """The counts, without looking at the jobs."""
        return Stats(
            queued=self._queued,
            in_progress=self._in_progress,
            dead=self._dead,
            enqueued_total=self.enqueued_total,
            completed_total=self.completed_total,
            dead_total=self.dead_total,
        )

    def waiting(self, entrypoint: str | None = None) -> int:
        """How many jobs wait, of one entrypoint or of all, without looking at them."""
        return self._queued if entrypoint is None else self._waiting[entrypoint]

    def is_conserved(self) -> bool:
        """Whether enqueued = live + finished: nothing lost, nothing doubled."""
        live = self._queued + self._in_progress
        return self.enqueued_total == live + self.completed_total + self.dead_total

    # Transitions

    def enqueue(self, job: Job) -> Job:
        """Put a new job at the end of its priority's line."""
        if job.id in self._jobs:
            raise ConfigurationError(f"job {job.id} is in the queue already")
        self.sequence += 1
        job = replace(job, sequence=self.sequence)
        self._put(job)
        self.enqueued_total += 1
        return job

    def dequeue(self, entrypoint: str | None, token: str, now: datetime) -> Job | None:
        """Claim the next waiting job: lowest priority first, then first in, first out."""
        job = self._next_ready(entrypoint)
        if job is None:
            return None
        claimed = replace(
            job,
            status=JobStatus.IN_PROGRESS,
            attempts=job.attempts + 1,
            token=token,
            claimed_at=now,
            heartbeat_at=now,
        )
        self._put(claimed)
        return claimed

    def ack(self, claim: Claim) -> None:
        """The work is done: the job leaves the queue."""
        job = self._held(claim)
        self._set(job.id, job, None)
        self.completed_total += 1

    def nack(self, claim: Claim, error: str | None) -> Job:
        """The work failed: back to its place in line, or dead if no attempt is left."""
        return self._give_back(self._held(claim), error)

    def heartbeat(self, claim: Claim, now: datetime) -> None:
        """The worker lives. The stamp always grows, so that a change shows on any clock."""
        job = self._held(claim)
        previous = job.heartbeat_at
        later = now if previous is None or now > previous else previous + _TICK
        self._put(replace(job, heartbeat_at=later))

    def requeue_stale(self, claim: Claim) -> Job:
        """The worker fell silent: as if it had failed."""
        return self._give_back(self._held(claim), "stale: no heartbeat from its worker")

    def release(self, claim: Claim) -> bool:
        """Undo a claim that never reached a worker; it costs no attempt."""
        try:
            job = self._held(claim)
        except JobNotFoundError:
            return False
        self._put(_unclaimed(job, JobStatus.QUEUED, attempts=job.attempts - 1, error=job.error))
        return True

    # Operations, commits

    def apply(self, operation: Callable[["QueueState"], T]) -> T:
        """Run an operation; if it raises, the state is as it was before."""
        self._undo.clear()
        sequence, changes = self.sequence, self.changes
        totals = self.enqueued_total, self.completed_total, self.dead_total
        try:
            return operation(self)
        except BaseException:
            undo, self._undo = self._undo, []
            for job_id, job in reversed(undo):
                self._set(job_id, self._jobs.get(job_id), job)
            self.sequence, self.changes = sequence, changes
            self.enqueued_total, self.completed_total, self.dead_total = totals
            raise

    def stamp(self, writer: str, number: int) -> None:
        """Make this the next version, signed by a writer's commit number.

        A writer whose answer got lost finds its signature in what it reads back. The
        signatures of long gone writers are dropped; `forgotten_version` remembers up
        to which version that may have happened.
        """
        self.version += 1
        self.writers.pop(writer, None)
        self.writers[writer] = Mark(number, self.version)
        while len(self.writers) > WRITERS_MAX:
            oldest = next(iter(self.writers))
            self.forgotten_version = self.writers.pop(oldest).version

    def holds(self, writer: str, number: int) -> bool:
        """Whether this state includes that commit of that writer."""
        mark = self.writers.get(writer)
        return mark is not None and mark.number == number

    # Inside

    def _with_status(self, status: JobStatus) -> tuple[Job, ...]:
        found = (job for job in self._jobs.values() if job.status is status)
        return tuple(sorted(found, key=lambda job: job.sequence))

    def _held(self, claim: Claim) -> Job:
        job = self._jobs.get(claim.job_id)
        if job is None:
            raise JobNotFoundError(claim.job_id)
        if job.status is not JobStatus.IN_PROGRESS:
            raise ClaimLostError(job.id, f"it is {job.status.value}, not in progress")
        if claim.token is not None and claim.token != job.token:
            raise ClaimLostError(job.id, "another worker holds it now")
        return job

    def _give_back(self, job: Job, error: str | None) -> Job:
        exhausted = job.attempts >= job.max_attempts
        status = JobStatus.DEAD if exhausted else JobStatus.QUEUED
        given_back = _unclaimed(job, status, attempts=job.attempts, error=error)
        self._put(given_back)
        if exhausted:
            self.dead_total += 1
        return given_back

    def _put(self, job: Job) -> None:
        self._set(job.id, self._jobs.get(job.id), job)

    def _set(self, job_id: str, previous: Job | None, job: Job | None) -> None:
        # The one place where jobs change, so that counts, heaps and undo log stay in step.
        self._undo.append((job_id, previous))
        self.changes += 1
        if previous is not None:
            self.touched[job_id] = previous.sequence
            self._count(previous, -1)
        if job is None:
            self._jobs.pop(job_id, None)
            return
        self._jobs[job_id] = job
        self.touched[job_id] = job.sequence
        self._count(job, 1)
        if job.status is JobStatus.QUEUED:
            self._push_ready(job)

    def _count(self, job: Job, step: int) -> None:
        if job.status is JobStatus.QUEUED:
            self._queued += step
            self._waiting[job.entrypoint] += step
        elif job.status is JobStatus.IN_PROGRESS:
            self._in_progress += step
        else:
            self._dead += step

    def _push_ready(self, job: Job) -> None:
        for asked in (None, job.entrypoint):
            heap = self._ready.get(asked)
            if heap is not None:
                heapq.heappush(heap, (job.priority, job.sequence, job.id))
                # Jobs claimed through the other heap leave their entries: rebuild now and then.
                if len(heap) > 2 * self.waiting(asked) + _HEAP_SLACK:
                    del self._ready[asked]

    def _next_ready(self, entrypoint: str | None) -> Job | None:
        heap = self._ready.get(entrypoint)
        if heap is None:
            # Built when first asked for: a producer never asks. A sorted list is a heap.
            heap = [(job.priority, job.sequence, job.id) for job in self.queued_jobs(entrypoint)]
            self._ready[entrypoint] = heap
        while heap:
            job = self._jobs.get(heap[0][2])
            if job is not None and job.status is JobStatus.QUEUED:
                return job
            heapq.heappop(heap)
        return None


def _unclaimed(job: Job, status: JobStatus, attempts: int, error: str | None) -> Job:
    return replace(
        job,
        status=status,
        attempts=attempts,
        error=error,
        token=None,
        claimed_at=None,
        heartbeat_at=None,
    )
