"""Contents: what a queue's state consists of, and the few steps by which its jobs change."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from bucketq.backlog import Backlog
from bucketq.batches import Batches, JobBatch
from bucketq.dispatch import Dispatcher
from bucketq.election import Leader
from bucketq.errors import QueueFullError, StorageError
from bucketq.job import Job, JobStatus
from bucketq.journal import Journal
from bucketq.kept_keys import KeptKey, KeptKeys
from bucketq.ledger import Ledger
from bucketq.limits import Limits
from bucketq.loads import Loads
from bucketq.object_name import version_of
from bucketq.rate_buckets import RateBuckets, StoredBuckets
from bucketq.schedule import Schedules
from bucketq.sessions import Sessions
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.signatures import Signatures
from bucketq.table import JobTable
from bucketq.turns import TurnLine, Turns

# Looking a member up in its class is slow.
_QUEUED = JobStatus.QUEUED


class Contents:
    """All jobs of a queue, and what has happened to those that are gone.

    `version` grows by one with every commit. `changes` counts changes, so that "nothing
    happened" is seen without comparing; `claims` and `retries` count those among them.
    `dropped` collects the names of objects that are not referred to any more; `size` is about
    the bytes of queue.json.
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
        kept_keys: Mapping[str, KeptKey] | None = None,
        batches: Mapping[str, JobBatch] | None = None,
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
        self.schedules = schedules or Schedules()
        # The time of the batch that is being applied.
        self.applied_at: datetime | None = None
        self.shelf = Shelf()
        self.settings = Settings()
        # Whether finished jobs go to the archive; else they are only counted.
        self.archives = False
        self.size = 0
        self.changes = self.claims = self.retries = 0
        self._table = JobTable(jobs)
        self._journal = Journal()
        self.batches = Batches(self._journal, batches)
        self.kept_keys = KeptKeys(self._journal, kept_keys)
        self.limits = limits or Limits()
        # Asking them is slow, and every dequeue asks.
        self._is_limited = bool(self.limits)
        self.buckets = RateBuckets(self._journal, buckets)
        self.turns = Turns(self._journal, turns)
        self._table.turned.look_at(self.turns.lines)
        self._dispatcher = Dispatcher(self._table, self.buckets, self.limits)
        self.dropped: list[str] = []
        # Finished jobs of which others still have to be told.
        self._news: deque[tuple[Job, bool]] = deque()

    def _put(self, job: Job) -> None:
        self._table.put(job)
        self.changes += 1

    def _remove(self, job: Job) -> None:
        self._table.remove(job)
        self.changes += 1

    def _add(self, job: Job) -> Job:
        self.sequence += 1
        job = self._in_line(replace(job, sequence=self.sequence, turn=0))
        self._put(job)
        self.enqueued_total += 1
        return job

    def _in_line(self, job: Job) -> Job:
        """A job that comes into line, with its turn."""
        if job.status is not _QUEUED or not (self.turns or job.turn or job.tenant is not None):
            return job
        if job.turn:
            return self._back_in_line(job)
        self.turns.forget(self._table.turned, self.backlog)
        return replace(job, turn=self.turns.turn_of(job))

    def _back_in_line(self, job: Job) -> Job:
        """A job that was served before, in its place."""
        if job.turn and job.status is _QUEUED:
            turn = self.turns.again(job)
            return job if turn == job.turn else replace(job, turn=turn)
        return job

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

    def _refuse_collected(self, name: str) -> None:
        version = version_of(name)
        if version is None or version < self.collected_version:
            raise StorageError(
                f"object {name} was begun so long ago that it may have been collected as garbage"
                " (collect_after_s). Nothing was changed; do it again, in less time."
            )

    @property
    def _keeps_payloads(self) -> bool:
        return self.archives and self.settings.archive_payloads

    @property
    def _lines(self) -> int:
        waiting = {(_QUEUED, entrypoint, None) for entrypoint in self._table.ready.entrypoints}
        backlog = {line for line in self.backlog.lines if line[0] is not JobStatus.IN_PROGRESS}
        return max(1, len(waiting | backlog))
