"""Watch: whether a job that somebody waits for may be finished, without looking into segments."""

from bucketq.backlog import Backlog
from bucketq.job import Job, JobStatus
from bucketq.segment import key_of
from bucketq.state import QueueState


class Watch:
    """What was seen of a job last: how it stood, and in which segments it could be."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._backlog: Backlog | None = None
        self._segments: set[str] = set()

    def may_be_over(self, state: QueueState) -> bool:
        """Whether it is to be looked at again: it is dead, or not where it was."""
        job = state.find(self._job.id) or state.batches.follower(self._job.id)
        if job is not None:
            self._job, self._backlog = job, None
            return job.status is JobStatus.DEAD
        if state.backlog is self._backlog:
            return False
        before, is_first_look = self._segments, self._backlog is None
        self._backlog, self._segments = state.backlog, self._holding(state.backlog)
        return not self._segments or not (is_first_look or before <= self._segments)

    def _holding(self, backlog: Backlog) -> set[str]:
        key = key_of(self._job)
        return {
            segment.name
            for segment in backlog.of_line(self._job.status, self._job.entrypoint)
            if segment.may_hold(self._job.id) and key <= segment.last and segment.still_holds(key)
        }
