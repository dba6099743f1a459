"""Overdue: attempts that have taken too long, and jobs of workers that fell silent, are taken away.

`stale` and `timeouts` know which those are. Each commit begins with it.
"""

import logging
from collections.abc import Iterable

from bucketq.clock import Clock
from bucketq.job import Claim
from bucketq.log_fields import fields_of
from bucketq.operation import Operation, claims_of
from bucketq.pending import Pending
from bucketq.stale import StaleWatch
from bucketq.state import QueueState

log = logging.getLogger("bucketq")


class Overdue:
    """Takes from a state what its watch finds overdue."""

    def __init__(self, watch: StaleWatch, clock: Clock) -> None:
        self._watch = watch
        self._clock = clock

    def end_attempts(self, state: QueueState) -> None:
        """End the attempts that have taken longer than their job allows."""
        for job in self._watch.timeouts.over(state, self._clock.monotonic_s()):
            log.info("job %s has taken longer than it may", job.id, extra=fields_of(job))
            state.time_out(Claim.of(job), self._clock.now())

    def requeue_silent(
        self, state: QueueState, batch: Iterable[Pending], riders: Iterable[Operation]
    ) -> None:
        """Take the jobs, and the segments, of workers that fell silent and do not speak just now."""
        now_s = self._clock.monotonic_s()
        silent, segments = self._watch.stale(state, now_s), self._watch.stale_segments(state, now_s)
        if silent or segments:
            # A process that stood still may hear its own workers only now.
            operations = [*(pending.operation for pending in batch), *riders]
            speaking = {claim for operation in operations for claim in claims_of(operation)}
            for job in silent:
                if not speaking & {Claim(job.id), Claim.of(job)}:
                    log.info(
                        "the worker of job %s has been silent for too long", job.id, extra=fields_of(job)
                    )
                    state.requeue_stale(Claim.of(job), self._clock.now())
            for claim in segments:
                if claim not in speaking:
                    log.info("the worker of segment %s has been silent for too long", claim.job_id)
                    state.requeue_stale_segment(claim, self._clock.now())
