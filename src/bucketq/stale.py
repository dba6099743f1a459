"""StaleWatch: which claims have fallen silent, judged by this process's own clock.

Comparing a heartbeat's time stamp with the time of day would compare the clocks of two
machines: one that runs an hour ahead would take every job from every healthy worker. The
watch asks something else: for how long has *this process* seen the heartbeat unchanged?
Only its own monotonic clock matters, and a fresh process gives every running job a fresh
timeout. Time in which this process could not reach the storage does not count: most likely
the workers could not either.
"""

import heapq
from collections.abc import Iterable
from datetime import datetime

from bucketq.backlog import Backlog
from bucketq.job import Claim, Job, JobStatus
from bucketq.state import QueueState
from bucketq.timeouts import TimeoutWatch

_HEAP_SLACK = 64
# Outages that are shorter than this part of the time that workers have are no excuse.
_SHORT = 0.1
# Looking a member up in its class is slow.
_IN_PROGRESS = JobStatus.IN_PROGRESS


class StaleWatch:
    """Remembers since when each claim's heartbeat has stood still."""

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        # Token, heartbeat, when it was first seen, and how long this process had been blind by then.
        self._beats: dict[str, tuple[str | None, datetime | None, float, float]] = {}
        self._blind_s = 0.0
        self._due: list[tuple[float, str]] = []
        # The same of claimed segments, which are few, as of this backlog.
        self._segments: dict[Claim, tuple[datetime, float, float]] = {}
        self._backlog: Backlog | None = None
        self.timeouts = TimeoutWatch()

    def observe(self, state: QueueState, job_ids: Iterable[str], now_s: float) -> None:
        """Take note of how these jobs stand now."""
        for job_id in job_ids:
            job = state.find(job_id)
            if job is None or job.status is not _IN_PROGRESS:
                self._beats.pop(job_id, None)
                self.timeouts.forget(job_id)
            elif self.age_s(job, now_s) is None:
                self._beats[job_id] = job.token, job.heartbeat_at, now_s, self._blind_s
                heapq.heappush(self._due, (now_s + self._stale_after_s, job_id))
                if job.timeout_s:
                    self.timeouts.watch(job, now_s)
        # Finished jobs leave their entries behind: sweep when they are the most.
        if len(self._due) > 2 * len(self._beats) + _HEAP_SLACK:
            self._due = [(beat[2] + self._stale_after_s, job_id) for job_id, beat in self._beats.items()]
            heapq.heapify(self._due)
        if state.backlog is not self._backlog:
            self._backlog = state.backlog
            self._observe_segments(state.backlog, now_s)

    def observe_all(self, state: QueueState, now_s: float) -> None:
        """Take note of a whole state that somebody else may have written."""
        running = (job.id for job in state.in_progress_jobs())
        self.observe(state, {**self._beats, **dict.fromkeys(running)}, now_s)

    def age_s(self, job: Job, now_s: float) -> float | None:
        """For how long this very heartbeat has stood still, or None if it is a new one."""
        seen = self._beats.get(job.id)
        if seen is None or seen[0] != job.token or seen[1] != job.heartbeat_at:
            return None
        return now_s - seen[2]

    def excuse(self, blind_s: float) -> None:
        """Hold the last so many seconds against nobody: this process saw nothing.

        And as many again: workers, too, need a while to be heard after an outage. A short one
        keeps none of them from being heard in time, and a storage that often falters must not
        keep the jobs of the dead for ever.
        """
        if blind_s >= _SHORT * self._stale_after_s:
            self._blind_s += blind_s + min(blind_s, self._stale_after_s)

    def stale(self, state: QueueState, now_s: float) -> list[Job]:
        """The jobs whose worker has been silent for too long."""
        silent: dict[str, Job] = {}
        while self._due and self._due[0][0] <= now_s:
            _, job_id = heapq.heappop(self._due)
            job = state.find(job_id)
            age_s = self.age_s(job, now_s) if job else None
            if job and age_s is not None and age_s >= self._stale_after_s:
                left_s = self._stale_after_s - age_s + self._blind_s - self._beats[job_id][3]
                if left_s <= 0:
                    silent[job_id] = job
                else:
                    heapq.heappush(self._due, (now_s + left_s, job_id))
        # Still due until the state shows that they were taken: the commit may yet fail.
        for job_id in silent:
            heapq.heappush(self._due, (now_s, job_id))
        return list(silent.values())

    def stale_segments(self, state: QueueState, now_s: float) -> list[Claim]:
        """The claims on whole segments whose worker has been silent for too long."""
        return [
            claim
            for claim, (_, hold) in state.backlog.held().items()
            if (seen := self._segments.get(claim)) is not None
            and seen[0] == hold.heartbeat_at
            and now_s - seen[1] >= self._stale_after_s + self._blind_s - seen[2]
        ]

    def _observe_segments(self, backlog: Backlog, now_s: float) -> None:
        before, self._segments = self._segments, {}
        for claim, (_, hold) in backlog.held().items():
            seen = before.get(claim)
            if seen is None or seen[0] != hold.heartbeat_at:
                seen = hold.heartbeat_at, now_s, self._blind_s
            self._segments[claim] = seen
