"""Dead letters: the dead jobs of a queue, listed without reading more than is looked at."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from bucketq.errors import CorruptStateError, ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import SideObjects, unreachable
from bucketq.state import QueueState


class DeadLetter(NamedTuple):
    """A dead job, and the segment in which it stands; none is queue.json itself."""

    job: Job
    where: str = ""

    def matches(self, error: str | None) -> bool:
        """Whether its last error has this in it."""
        return error is None or error in (self.job.error or "")


async def dead_letters(
    read: Callable[[], Awaitable[QueueState]], objects: SideObjects | None, entrypoint: str | None
) -> AsyncIterator[DeadLetter]:
    """Those in queue.json, then segment by segment; `read` reads the queue without its segments."""
    told: set[int] = set()
    missing = None
    while True:
        state = await read()
        for job in state.dead_jobs():
            if entrypoint in (None, job.entrypoint) and job.sequence not in told:
                told.add(job.sequence)
                yield DeadLetter(job)
        try:
            for segment in state.backlog:
                if segment.status is JobStatus.DEAD and entrypoint in (None, segment.entrypoint):
                    for job in await _read(objects, segment):
                        if job.sequence not in told:
                            told.add(job.sequence)
                            yield DeadLetter(job, segment.name)
            return
        except ObjectNotFoundError as error:
            # Used up meanwhile, unless the queue still names it.
            if missing == segment.name:
                raise CorruptStateError(f"a segment of the backlog is gone: {error}") from error
            missing = segment.name


async def _read(objects: SideObjects | None, segment: Segment) -> list[Job]:
    if objects is None:
        raise unreachable("dead jobs are")
    return list(SegmentLines(segment, await objects.read(segment.name)).jobs(segment))
