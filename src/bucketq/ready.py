"""ReadyLine: the waiting jobs in queue.json, in the order of their turns, for any entrypoints."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.segment import Key, key_of
from bucketq.wanted import WANTED_MAX, Wanted, names_of

_HEAP_SLACK = 64
# The filters of recent dequeues, and the names in them. Each costs a look at the backlog after every commit.
_ASKED_MAX = 64
_ASKED_NAMES_MAX = 2 * WANTED_MAX
# Looking a member up in its class is slow.
_QUEUED = JobStatus.QUEUED


class ReadyLine:
    """Heaps over the waiting jobs of a state: one for each entrypoint that is asked for and has any.

    A heap is built when it is first asked for: a producer never asks.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._heaps: dict[str | None, list[tuple[Key, str]]] = {}
        # Without zeros: entrypoints come and go.
        self._counts: Counter[str | None] = Counter()
        self._asked: dict[Wanted, None] = {}
        # About the bytes of all waiting jobs in the file.
        self.size = 0
        # Those that wait for room for their limit key, with their places, and about their bytes.
        self.aside: dict[str, Key] = {}
        self.aside_size = 0

    @property
    def asked(self) -> Collection[Wanted]:
        """The filters of recent dequeues."""
        return self._asked.keys()

    def count(self, wanted: Wanted = None) -> int:
        """How many jobs wait here, of some entrypoints or of all."""
        if isinstance(wanted, tuple):
            return sum(self._counts[name] for name in wanted)
        return self._counts[wanted]

    @property
    def entrypoints(self) -> set[str]:
        """Those that have a job waiting here."""
        return {entrypoint for entrypoint in self._counts if entrypoint is not None}

    @property
    def entries(self) -> int:
        """How many entries the indexes hold in memory."""
        return sum(map(len, self._heaps.values())) + len(self._heaps) + len(self._counts) + len(self._asked)

    def change_count(self, job: Job, step: int) -> None:
        """Record that one more job waits, or (-1) one less."""
        self.size += step * line_bytes(job)
        if step < 0 and self.aside.pop(job.id, None) is not None:
            self.aside_size -= line_bytes(job)
        for name in (None, job.entrypoint):
            self._counts[name] += step
            if not self._counts[name]:
                del self._counts[name]
                self._heaps.pop(name, None)

    def push(self, job: Job) -> None:
        """Add a job that waits from now on."""
        for asked in (None, job.entrypoint):
            heap = self._heaps.get(asked)
            if heap is not None:
                heapq.heappush(heap, (key_of(job), job.id))
                # Jobs claimed through the other heap leave their entries: rebuild now and then.
                if len(heap) > 2 * self._counts[asked] + _HEAP_SLACK:
                    del self._heaps[asked]

    def note(self, wanted: Wanted) -> None:
        """Remember a filter as one of the recent ones."""
        is_known = wanted in self._asked
        self._asked.pop(wanted, None)
        self._asked[wanted] = None
        while not is_known and (
            len(self._asked) > _ASKED_MAX or sum(len(names_of(one)) for one in self._asked) > _ASKED_NAMES_MAX
        ):
            del self._asked[next(iter(self._asked))]

    def first(self, wanted: Wanted) -> Job | None:
        """The waiting job whose turn it is."""
        self.note(wanted)
        if not isinstance(wanted, tuple):
            return self.head(wanted)
        self.prepare(wanted)
        return min(filter(None, map(self.head, wanted)), key=key_of, default=None)

    def prepare(self, entrypoints: Iterable[str]) -> None:
        """Build the heaps of entrypoints whose heads will be asked for, in one pass over the jobs."""
        missing = [name for name in entrypoints if name in self._counts and name not in self._heaps]
        if missing:
            self._build(missing)

    def head(self, entrypoint: str | None) -> Job | None:
        """The waiting job whose turn it is, of one entrypoint or of all."""
        if entrypoint not in self._counts:
            return None
        if entrypoint not in self._heaps:
            self._build([entrypoint])
        heap = self._heaps[entrypoint]
        while heap:
            job = self._jobs.get(heap[0][1])
            # It may have been taken back, and come again with another place.
            if job is not None and job.status is _QUEUED and key_of(job) == heap[0][0]:
                return job
            heapq.heappop(heap)
        return None

    def set_aside(self, job: Job) -> bool:
        """Take the first one out of its entrypoint's heap; it waits elsewhere. False if it did before."""
        heapq.heappop(self._heaps[job.entrypoint])
        if job.id in self.aside:
            return False
        self.aside[job.id] = key_of(job)
        self.aside_size += line_bytes(job)
        return True

    def forget(self, entrypoint: str) -> None:
        """Stop reading ahead for an entrypoint, until it is asked for again."""
        self._asked.pop(entrypoint, None)

    def reset(self) -> None:
        """Let all stand in line again."""
        self._heaps.clear()
        self.aside.clear()
        self.aside_size = 0

    def _build(self, entrypoints: Iterable[str | None]) -> None:
        """Build the heaps that are missing, all in one pass."""
        heaps: dict[str | None, list[tuple[Key, str]]] = {
            one: [] for one in entrypoints if one not in self._heaps
        }
        is_any = None in heaps
        for job in self._jobs.values():
            if job.status is _QUEUED:
                heap = heaps.get(None if is_any else job.entrypoint)
                if heap is not None:
                    heap.append((key_of(job), job.id))
        for heap in heaps.values():
            # A sorted list is a heap.
            heap.sort()
        self._heaps |= heaps
