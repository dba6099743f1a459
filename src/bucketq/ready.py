"""ReadyLine: the waiting jobs in queue.json, in the order of their turns, for any entrypoints."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bucketq.job import Job, JobStatus
from bucketq.segment import Key, key_of
from bucketq.wanted import Wanted

_HEAP_SLACK = 64
# Looking a member up in its class is slow.
_QUEUED = JobStatus.QUEUED


class ReadyLine:
    """Heaps over the jobs of a state, one for each entrypoint that was ever asked for.

    They are built when first asked for: a producer never asks.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._heaps: dict[str | None, list[tuple[Key, str]]] = {}
        self._counts: Counter[str | None] = Counter()
        self._asked: set[Wanted] = set()

    @property
    def asked(self) -> Collection[Wanted]:
        """What somebody wants jobs of."""
        return self._asked

    def count(self, wanted: Wanted = None) -> int:
        """How many jobs wait here, of some entrypoints or of all."""
        if isinstance(wanted, tuple):
            return sum(self._counts[name] for name in wanted)
        return self._counts[wanted]

    @property
    def entrypoints(self) -> set[str]:
        """Those that have a job waiting here."""
        return {entrypoint for entrypoint, count in self._counts.items() if count and entrypoint is not None}

    def change_count(self, job: Job, step: int) -> None:
        """Take note that one more, or less, is waiting."""
        self._counts[None] += step
        self._counts[job.entrypoint] += step

    def push(self, job: Job) -> None:
        """A job is waiting from now on."""
        for asked in (None, job.entrypoint):
            heap = self._heaps.get(asked)
            if heap is not None:
                heapq.heappush(heap, (key_of(job), job.id))
                # Jobs claimed through the other heap leave their entries: begin anew now and then.
                if len(heap) > 2 * self._counts[asked] + _HEAP_SLACK:
                    del self._heaps[asked]

    def first(self, wanted: Wanted) -> Job | None:
        """The waiting job whose turn it is."""
        self._asked.add(wanted)
        if not isinstance(wanted, tuple):
            return self._first(wanted)
        if any(name not in self._heaps for name in wanted):
            self._build(wanted)
        return min(filter(None, map(self._first, wanted)), key=key_of, default=None)

    def _first(self, entrypoint: str | None) -> Job | None:
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

    def set_aside(self, entrypoint: str) -> None:
        """Take the first one out of its entrypoint's heap; it waits elsewhere."""
        heapq.heappop(self._heaps[entrypoint])

    def forget(self, entrypoint: str) -> None:
        """Nobody wants the jobs of an entrypoint one by one, for now."""
        self._asked.discard(entrypoint)

    def reset(self) -> None:
        """Let all stand in line again."""
        self._heaps.clear()

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
