"""DueLine: the scheduled jobs in queue.json, in the order of their times."""

import heapq
from collections.abc import Mapping

from bucketq.job import Job, JobStatus
from bucketq.segment import Key, key_of


class DueLine:
    """A heap over the scheduled jobs of a state."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._heap: list[tuple[Key, str]] = []

    def push(self, job: Job) -> None:
        """A job is scheduled from now on."""
        heapq.heappush(self._heap, (key_of(job), job.id))

    def first(self) -> Job | None:
        """The scheduled job that is due next."""
        while self._heap:
            key, job_id = self._heap[0]
            job = self._jobs.get(job_id)
            if job is not None and job.status is JobStatus.SCHEDULED and key_of(job) == key:
                return job
            heapq.heappop(self._heap)
        return None
