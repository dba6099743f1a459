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

from bucketq.errors import ClaimLostError, JobNotFoundError
from bucketq.job import Claim, Job, JobStatus

T = TypeVar("T")

WRITERS_MAX = 64
_TICK = timedelta(microseconds=1)
_HEAP_SLACK = 64


class Totals(NamedTuple):
    """What has ever happened. Conservation: enqueued = live + completed + dead."""

    enqueued: int = 0
    completed: int = 0
    dead: int = 0


NOTHING_YET = Totals()


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
    changed; whoever encodes the state empties it. `changes` counts changes, so that
    "nothing happened" is seen without comparing.
    """

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        *,
        version: int = 0,
        sequence: int = 0,
        totals: Totals = NOTHING_YET,
        writers: dict[str, Mark] | None = None,
        forgotten_version: int = 0,
    ) -> None:
        self.version = version
        self.sequence = sequence
        self.totals = totals
        self.writers = writers or {}
        self.forgotten_version = forgotten_version
        self.changes = 0
        self._jobs = {job.id: job for job in jobs}
        self._counts = Counter(job.status for job in self._jobs.values())
        self._ready_by_entrypoint: dict[str, list[tuple[int, int, str]]] | None = None
        self._ready: list[tuple[int, int, str]] | None = None
        self._undo: list[tuple[str, Job | None]] = []
        # A dict for its order: equal histories must give equal bytes.
        self.touched: dict[str, None] = {}

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
            queued=self._counts[JobStatus.QUEUED],
            in_progress=self._counts[JobStatus.IN_PROGRESS],
            dead=self._counts[JobStatus.DEAD],
            enqueued_total=self.totals.enqueued,
            completed_total=self.totals.completed,
            dead_total=self.totals.dead,
        )

    def has_ready(self, entrypoint: str | None = None) -> bool:
        """Whether a dequeue would find a job now."""
        return self._next_ready(entrypoint) is not None

    def is_conserved(self) -> bool:
        """Whether enqueued = live + finished: nothing lost, nothing doubled."""
        stats = self.stats
        live = stats.queued + stats.in_progress
        return stats.enqueued_total == live + stats.completed_total + stats.dead_total

    # Transitions

    def enqueue(self, job: Job) -> Job:
        """Put a new job at the end of its priority's line."""
        self.sequence += 1
        job = replace(job, sequence=self.sequence)
        self._put(job)
        self.totals = self.totals._replace(enqueued=self.totals.enqueued + 1)
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
        self._put(None, job.id)
        self.totals = self.totals._replace(completed=self.totals.completed + 1)

    def nack(self, claim: Claim, error: str | None) -> Job:
        """The work failed: back to its place in line, or dead if no attempt is left."""
        return self._give_back(self._held(claim), error)

    def heartbeat(self, claim: Claim, now: datetime) -> None:
        """The worker lives. The stamp always grows, so that a change shows on any clock."""
        job = self._held(claim)
        previous = job.heartbeat_at
        later = now if previous is None or now > previous else previous + _TICK
        self._put(replace(job, heartbeat_at=later))

    def requeue_stale(self, seen: Job) -> bool:
        """Take the job from a worker that fell silent, if it still stands as it was seen."""
        job = self._jobs.get(seen.id)
        if job is None or job.status is not JobStatus.IN_PROGRESS:
            return False
        if (job.token, job.heartbeat_at) != (seen.token, seen.heartbeat_at):
            return False
        self._give_back(job, "stale: no heartbeat from its worker")
        return True

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
        before = self.sequence, self.totals, self.changes
        try:
            return operation(self)
        except BaseException:
            undo, self._undo = self._undo, []
            for job_id, job in reversed(undo):
                self._put(job, job_id)
            self.sequence, self.totals, self.changes = before
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
            self.totals = self.totals._replace(dead=self.totals.dead + 1)
        return given_back

    def _put(self, job: Job | None, job_id: str = "") -> None:
        # The one place where jobs change, so that counts, heaps and undo log stay in step.
        job_id = job.id if job is not None else job_id
        previous = self._jobs.get(job_id)
        self._undo.append((job_id, previous))
        self.touched[job_id] = None
        self.changes += 1
        if previous is not None:
            self._counts[previous.status] -= 1
        if job is None:
            self._jobs.pop(job_id, None)
            return
        self._jobs[job_id] = job
        self._counts[job.status] += 1
        if job.status is JobStatus.QUEUED:
            self._push_ready(job)

    def _push_ready(self, job: Job) -> None:
        entry = job.priority, job.sequence, job.id
        if self._ready is not None:
            heapq.heappush(self._ready, entry)
            # Entries of jobs claimed through the other index pile up: sweep now and then.
            if len(self._ready) > 2 * self._counts[JobStatus.QUEUED] + _HEAP_SLACK:
                self._ready = None
        if self._ready_by_entrypoint is not None:
            heap = self._ready_by_entrypoint.setdefault(job.entrypoint, [])
            heapq.heappush(heap, entry)
            if len(heap) > 2 * self._counts[JobStatus.QUEUED] + _HEAP_SLACK:
                self._ready_by_entrypoint = None

    def _next_ready(self, entrypoint: str | None) -> Job | None:
        heap = self._ready_heap(entrypoint)
        while heap:
            _, sequence, job_id = heap[0]
            job = self._jobs.get(job_id)
            if job is not None and job.status is JobStatus.QUEUED and job.sequence == sequence:
                return job
            heapq.heappop(heap)
        return None

    def _ready_heap(self, entrypoint: str | None) -> list[tuple[int, int, str]]:
        # Built when first asked for: a producer never asks.
        if entrypoint is None:
            if self._ready is None:
                self._ready = [(job.priority, job.sequence, job.id) for job in self.queued_jobs()]
            return self._ready
        if self._ready_by_entrypoint is None:
            self._ready_by_entrypoint = {}
            for job in self.queued_jobs():
                heap = self._ready_by_entrypoint.setdefault(job.entrypoint, [])
                heap.append((job.priority, job.sequence, job.id))
        return self._ready_by_entrypoint.get(entrypoint, [])


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
