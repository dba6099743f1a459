"""Riders: heartbeats that wait for the next write, to ride along with it.

A write for each would cost more than the work of most workers does. Nobody else has to see one
before the last stored beat is a third of the stale timeout old.
"""

from collections.abc import Mapping

from bucketq.clock import Clock
from bucketq.operation import Heartbeat
from bucketq.stale import StaleWatch
from bucketq.state import QueueState


class Riders:
    """The last heartbeat of each job that has not been written yet."""

    def __init__(self, watch: StaleWatch, stale_after_s: float, clock: Clock) -> None:
        self._watch = watch
        self._wait_max_s = stale_after_s / 3
        self._clock = clock
        self._beats: dict[str, Heartbeat] = {}

    def add(self, beat: Heartbeat, state: QueueState) -> float:
        """Let a heartbeat ride along with the next write; return how long it may wait for one.

        It may until the last stored beat is a third of the stale timeout old, and not beyond the
        job's own timeout, so that its worker learns in time that it is over. 0 means that
        it may not wait, and was not taken along.
        """
        job = state.find(beat.claim.job_id)
        if job is None or beat.claim.token not in (None, job.token) or job.is_cancelled:
            return 0.0
        age_s = self._watch.age_s(job, self._clock.monotonic_s())
        left_s = self._watch.timeouts.left_s(job.id, self._clock.monotonic_s())
        if age_s is None or age_s >= self._wait_max_s or not left_s:
            return 0.0
        self._beats[job.id] = beat.after(self._beats.get(job.id))
        return min(self._wait_max_s - age_s, left_s)

    def take(self) -> dict[str, Heartbeat]:
        """Those that wait, by job, to be written now."""
        beats, self._beats = self._beats, {}
        return beats

    def put_back(self, beats: Mapping[str, Heartbeat]) -> None:
        """Let those wait on that no write has taken along; some may have spoken again meanwhile."""
        newer = {job_id: beat.after(beats.get(job_id)) for job_id, beat in self._beats.items()}
        self._beats = {**beats, **newer}
