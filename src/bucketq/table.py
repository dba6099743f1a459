"""JobTable: the jobs that stand in queue.json itself, counted, in line, and with an undo log."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from bucketq.dependents import Dependents
from bucketq.due import DueLine
from bucketq.job import Job, JobStatus
from bucketq.ready import ReadyLine
from bucketq.segment import key_of
from bucketq.turned_jobs import TurnedJobs

# Looking a member up in its class is slow.
_QUEUED, _SCHEDULED, _BLOCKED = JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.BLOCKED
_IN_PROGRESS, _DEAD = JobStatus.IN_PROGRESS, JobStatus.DEAD
_CHANGED_MAX = 10_000


class JobTable:
    """Jobs by id. `touched` collects the ids of jobs that changed, with their sequence."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = {job.id: job for job in jobs}
        self.ready = ReadyLine(self._jobs)
        self.due = DueLine(self._jobs)
        self.dependents = Dependents()
        self._counts: Counter[JobStatus] = Counter()
        # The jobs in progress by entrypoint and by limit key, and the keys of which one has ended.
        self.running: Counter[str] = Counter()
        self.running_keys: Counter[str] = Counter()
        self.freed: set[str] = set()
        # Of other keys nobody asks whether one has ended.
        self.watched_keys: Container[str] = ()
        # The entrypoints whose waiting or running jobs have changed since a dispatcher last looked; None if
        # they are too many to list.
        self.changed: set[str] | None = None
        self.turned = TurnedJobs()
        self.touched: dict[str, int] = {}
        # Jobs as they were, and whether they were touched before.
        self._undo: list[tuple[str, Job | None, bool]] = []
        # Who holds a unique key, and whose payload is in an object.
        self._keys: dict[str, str] = {}
        self._payloads: dict[str, str] = {}
        for job in self._jobs.values():
            self._count(job, 1)
            if job.status is _SCHEDULED:
                self.due.push(job)
            if job.key is not None and job.status is not _DEAD:
                self._keys[job.key] = job.id
            if job.payload_object is not None:
                self._payloads[job.payload_object] = job.id

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def get(self, job_id: str) -> Job | None:
        """The job with this id, or None."""
        return self._jobs.get(job_id)

    def with_key(self, key: str) -> Job | None:
        """The job that holds this unique key, or None; the dead do not hold theirs."""
        job_id = self._keys.get(key)
        return None if job_id is None else self._jobs[job_id]

    def has_payload(self, name: str) -> bool:
        """Whether an object is the payload of a job here."""
        return name in self._payloads

    def count(self, status: JobStatus) -> int:
        """How many jobs of a status there are."""
        return self._counts[status]

    def queued(self, entrypoint: str | None) -> tuple[Job, ...]:
        """The waiting jobs, in the order of their turns."""
        waiting = (job for job in self if job.status is _QUEUED and entrypoint in (None, job.entrypoint))
        return tuple(sorted(waiting, key=key_of))

    def with_status(self, *statuses: JobStatus) -> tuple[Job, ...]:
        """The jobs of these statuses, in the order of enqueueing."""
        found = (job for job in self if job.status in statuses)
        return tuple(sorted(found, key=lambda job: job.sequence))

    def put(self, job: Job) -> None:
        """Add a job, or replace it by how it stands now."""
        self._set(job.id, self._jobs.get(job.id), job)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        # As it stands here: who removes it may hold a changed one, and it may have to come back.
        self._set(job.id, self._jobs.get(job.id), None)

    def begin(self) -> None:
        """From here on everything can be undone."""
        self._undo.clear()

    def save_point(self) -> int:
        """Where `roll_back` can go back to."""
        return len(self._undo)

    def roll_back(self, save_point: int) -> None:
        """Make it as it was at a save point."""
        undo = self._undo[save_point:]
        for job_id, job, was_touched in reversed(undo):
            self._set(job_id, self._jobs.get(job_id), job)
            if not was_touched:
                self.touched.pop(job_id, None)
        del self._undo[save_point:]

    def _set(self, job_id: str, previous: Job | None, job: Job | None) -> None:
        # The one place where jobs change, so that counts, heaps and undo log stay in step.
        self._undo.append((job_id, previous, job_id in self.touched))
        if previous is not None:
            self.touched[job_id] = previous.sequence
            self._count(previous, -1)
            if previous.key is not None and self._keys.get(previous.key) == job_id:
                del self._keys[previous.key]
            # In a file of before, two jobs may have the same object.
            if previous.payload_object is not None and self._payloads.get(previous.payload_object) == job_id:
                del self._payloads[previous.payload_object]
        if job is None:
            self._jobs.pop(job_id, None)
            return
        self._jobs[job_id] = job
        self.touched[job_id] = job.sequence
        self._count(job, 1)
        if job.key is not None and job.status is not _DEAD:
            self._keys[job.key] = job_id
        if job.payload_object is not None:
            self._payloads[job.payload_object] = job_id
        if job.status is _QUEUED:
            self.ready.push(job)
        elif job.status is _SCHEDULED:
            self.due.push(job)

    def _count(self, job: Job, step: int) -> None:
        status = job.status
        self._counts[status] += step
        if status is _QUEUED:
            self.ready.change_count(job, step)
            if job.turn:
                self.turned.count(job, step)
        elif status is _SCHEDULED:
            self.due.change_count(step)
        elif status is _BLOCKED:
            self.dependents.change(job, step)
        elif status is _IN_PROGRESS:
            self.running[job.entrypoint] += step
            if not self.running[job.entrypoint]:
                del self.running[job.entrypoint]
            if job.limit_key is not None:
                self._count_key(job.limit_key, step)
        self.mark(job.entrypoint)

    def mark(self, entrypoint: str) -> None:
        """Note that another job of an entrypoint may be the first that may begin."""
        if self.changed is not None:
            self.changed.add(entrypoint)
            if len(self.changed) > _CHANGED_MAX:
                self.changed = None

    def _count_key(self, limit_key: str, step: int) -> None:
        self.running_keys[limit_key] += step
        if step < 0:
            if limit_key in self.watched_keys:
                self.freed.add(limit_key)
            if not self.running_keys[limit_key]:
                del self.running_keys[limit_key]
