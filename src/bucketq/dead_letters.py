"""Dead letters: the dead jobs of a queue, listed without reading more than is looked at."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from bucketq.errors import ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import LiveSegments
from bucketq.state import QueueState


class DeadLetter(NamedTuple):
    """A dead job, and the segment in which it stands; none is queue.json itself."""

    job: Job
    where: str = ""

    def matches(self, error: str | None) -> bool:
        """Whether its last error has this in it."""
        return error is None or error in (self.job.error or "")


async def dead_letters(
    look: Callable[[], Awaitable[QueueState]],
    read: Callable[[Segment], Awaitable[bytes]],
    entrypoint: str | None,
) -> AsyncIterator[DeadLetter]:
    """Those in queue.json, then segment by segment; `look` reads the queue without its segments."""
    told: set[int] = set()
    segments = LiveSegments(read)
    while True:
        state = await look()
        for job in state.dead_jobs():
            if entrypoint in (None, job.entrypoint) and job.sequence not in told:
                told.add(job.sequence)
                yield DeadLetter(job)
        try:
            for segment in state.backlog:
                if segment.status is JobStatus.DEAD and entrypoint in (None, segment.entrypoint):
                    lines = SegmentLines(segment, await segments.read(segment))
                    for job in lines.jobs(segment):
                        if job.sequence not in told:
                            told.add(job.sequence)
                            yield DeadLetter(job, segment.name)
            return
        except ObjectNotFoundError:
            continue
