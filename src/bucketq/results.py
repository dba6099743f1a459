"""Results: waiting until a job is finished, to learn how it ended."""

from collections.abc import Awaitable, Callable
from typing import Any

from bucketq.archived_job import FinishedStatus
from bucketq.ending import Ending
from bucketq.errors import JobNotFoundError
from bucketq.job import Job, JobStatus

# How often somebody looks who is not told of it: soon at first, then gently.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_GROWTH = 1.5


async def result_of(
    job_id: str,
    look_up: Callable[[str], Awaitable[Job | Ending | None]],
    find_archived: Callable[[str], Awaitable[Ending | None]],
    wait: Callable[[Job, float], Awaitable[None]],
) -> Any:
    """The job's result, once there is one. `wait` lasts until the job may be finished, or so long.

    Raises JobFailedError, JobNotDoneError, or JobNotFoundError.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        found = await look_up(job_id)
        if found is None:
            found = await find_archived(job_id)
        if found is None:
            raise JobNotFoundError(
                job_id,
                f"job {job_id} is neither in the queue nor in its archive: never enqueued, not kept any"
                " more, or the queue has no archive",
            )
        if isinstance(found, Job) and found.status is JobStatus.DEAD:
            found = Ending(FinishedStatus.DEAD, found.error)
        if isinstance(found, Ending):
            return found.told(job_id)
        await wait(found, pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * _GROWTH)
