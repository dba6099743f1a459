"""TimeoutWatch: which attempts have taken longer than their job allows, by this process's own clock.

As with silence (see `stale`), time stamps of other machines are not asked: the time runs from when
this process first saw the claim. Heartbeats do not prolong it.
"""

import heapq
import math

from bucketq.job import Job, JobStatus
from bucketq.state import QueueState

_HEAP_SLACK = 64


class TimeoutWatch:
    """Remembers since when it has known each claim on a job with a timeout."""

    def __init__(self) -> None:
        # The claim's token, and when its time is up.
        self._until: dict[str, tuple[str | None, float]] = {}
        self._due: list[tuple[float, str]] = []

    def watch(self, job: Job, now_s: float) -> None:
        """Take note of a running job that has a timeout."""
        known = self._until.get(job.id)
        if known is None or known[0] != job.token:
            until_s = now_s + job.timeout_s
            self._until[job.id] = job.token, until_s
            heapq.heappush(self._due, (until_s, job.id))
            # Finished jobs leave their entries behind: sweep when they are the most.
            if len(self._due) > 2 * len(self._until) + _HEAP_SLACK:
                self._due = [(until_s, job_id) for job_id, (_, until_s) in self._until.items()]
                heapq.heapify(self._due)

    def forget(self, job_id: str) -> None:
        """The job does not run any more."""
        self._until.pop(job_id, None)

    def left_s(self, job_id: str, now_s: float) -> float:
        """How long the attempt may still take."""
        known = self._until.get(job_id)
        return max(0.0, known[1] - now_s) if known else math.inf

    def over(self, state: QueueState, now_s: float) -> list[Job]:
        """The running jobs whose time is up."""
        over: dict[str, None] = {}
        while self._due and self._due[0][0] <= now_s:
            until_s, job_id = heapq.heappop(self._due)
            if (known := self._until.get(job_id)) is not None and known[1] == until_s:
                over[job_id] = None
        # They stay due until an observed state shows that they were ended: the commit may yet fail.
        for job_id in over:
            heapq.heappush(self._due, (self._until[job_id][1], job_id))
        jobs = (state.find(job_id) for job_id in over)
        return [
            job
            for job in jobs
            if job and job.status is JobStatus.IN_PROGRESS and job.token == self._until[job.id][0]
        ]
