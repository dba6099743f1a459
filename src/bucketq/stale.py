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
from typing import NamedTuple

from bucketq.backlog import Backlog
from bucketq.job import Claim, Job, JobStatus
from bucketq.state import QueueState
from bucketq.timeouts import TimeoutWatch

_HEAP_SLACK = 64
# Outages that are shorter than this part of the time that workers have are no excuse.
_SHORT = 0.1
# Looking a member up in its class is slow.
_IN_PROGRESS = JobStatus.IN_PROGRESS


class _Beat(NamedTuple):
    """A heartbeat, when it was first seen, and how long this process had been blind by then.

    `due_s` is its key in the heap. An entry with another key belongs to an older heartbeat.
    """

    token: str | None
    heartbeat_at: datetime | None
    since_s: float
    blind_s: float
    due_s: float


class StaleWatch:
    """Remembers since when each claim's heartbeat has stood still."""

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._beats: dict[str, _Beat] = {}
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
                due_s = self._until_s(now_s, self._blind_s)
                self._beats[job_id] = _Beat(job.token, job.heartbeat_at, now_s, self._blind_s, due_s)
                heapq.heappush(self._due, (due_s, job_id))
                if job.timeout_s:
                    self.timeouts.watch(job, now_s)
        # Finished jobs leave their entries behind: sweep when they are the most.
        if len(self._due) > 2 * len(self._beats) + _HEAP_SLACK:
            self._due = [(beat.due_s, job_id) for job_id, beat in self._beats.items()]
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
        if seen is None or seen.token != job.token or seen.heartbeat_at != job.heartbeat_at:
            return None
        return now_s - seen.since_s

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
        due: dict[str, None] = {}
        while self._due and self._due[0][0] <= now_s:
            due_s, job_id = heapq.heappop(self._due)
            beat = self._beats.get(job_id)
            if beat is None or beat.due_s != due_s:
                continue
            # The key in the heap decides too: a sum that is rounded another way would lose the claim.
            until_s = self._until_s(beat.since_s, beat.blind_s)
            if until_s <= now_s:
                due[job_id] = None
            else:
                self._beats[job_id] = beat._replace(due_s=until_s)
                heapq.heappush(self._due, (until_s, job_id))
        # They stay due until an observed state shows that they were taken: the commit may yet fail.
        for job_id in due:
            heapq.heappush(self._due, (self._beats[job_id].due_s, job_id))
        jobs = (state.find(job_id) for job_id in due)
        return [job for job in jobs if job is not None and self.age_s(job, now_s) is not None]

    def stale_segments(self, state: QueueState, now_s: float) -> list[Claim]:
        """The claims on whole segments whose worker has been silent for too long."""
        return [
            claim
            for claim, (_, hold) in state.backlog.held().items()
            if (seen := self._segments.get(claim)) is not None
            and seen[0] == hold.heartbeat_at
            and self._until_s(seen[1], seen[2]) <= now_s
        ]

    def _until_s(self, since_s: float, blind_s: float) -> float:
        """When a heartbeat is stale that was first seen after so much blind time."""
        return since_s + (self._stale_after_s + (self._blind_s - blind_s))

    def _observe_segments(self, backlog: Backlog, now_s: float) -> None:
        before, self._segments = self._segments, {}
        for claim, (_, hold) in backlog.held().items():
            seen = before.get(claim)
            if seen is None or seen[0] != hold.heartbeat_at:
                seen = hold.heartbeat_at, now_s, self._blind_s
            self._segments[claim] = seen
