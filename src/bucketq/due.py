"""DueLine: the scheduled jobs in queue.json, in the order of their times."""

import heapq
from collections.abc import Mapping

from bucketq.job import Job, JobStatus
from bucketq.segment import Key, key_of

_HEAP_SLACK = 64


class DueLine:
    """A heap over the scheduled jobs of a state."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._heap: list[tuple[Key, str]] = []
        self._count = 0

    def __len__(self) -> int:
        """The entries held in memory, with those that no longer count."""
        return len(self._heap)

    def change_count(self, step: int) -> None:
        """Record that a scheduled job was added, or (-1) has left."""
        self._count += step

    def push(self, job: Job) -> None:
        """Add a job that is now scheduled."""
        heapq.heappush(self._heap, (key_of(job), job.id))
        # Cancelled, replaced and spilled jobs leave entries behind. Rebuild when those are the majority.
        if len(self._heap) > 2 * self._count + _HEAP_SLACK:
            self._heap = [(key_of(job), job.id) for job in self._jobs.values() if _is_scheduled(job)]
            heapq.heapify(self._heap)

    def first(self) -> Job | None:
        """The scheduled job that is due next."""
        while self._heap:
            key, job_id = self._heap[0]
            job = self._jobs.get(job_id)
            if job is not None and _is_scheduled(job) and key_of(job) == key:
                return job
            heapq.heappop(self._heap)
        return None


def _is_scheduled(job: Job) -> bool:
    return job.status is JobStatus.SCHEDULED
