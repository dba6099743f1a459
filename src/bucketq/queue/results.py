"""Results: waiting until a job is finished, to learn how it ended."""

import asyncio
from typing import Any

from bucketq.archived_job import FinishedStatus
from bucketq.duration import Duration, seconds_of
from bucketq.ending import Ending
from bucketq.errors import JobNotFoundError
from bucketq.job import Claim, Job, JobStatus
from bucketq.operation import LookUp
from bucketq.queue.channel import Channel

# How often somebody looks who is not told of it: soon at first, then gently.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_GROWTH = 1.5


class Results(Channel):
    """What jobs came to."""

    async def result(self, job: Job | str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result: what `ack` was given, as JSON has it.

            print(await q.result(job, timeout=60))

        Raises JobFailedError if it is dead, JobNotDoneError (a kind of it) if it was cancelled or
        has expired, TimeoutError when the time is up, and JobNotFoundError if there never was such
        a job. Results are kept with the archived job; without an archive there are none.
        """
        job_id = Claim.of(job).job_id
        timeout_s = None if timeout is None else seconds_of(timeout, "timeout")
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return (await self._ending(job_id)).told(job_id)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {job_id} is not finished after {timeout_s:g} s") from error

    async def _ending(self, job_id: str) -> Ending:
        """How a job ended, once it has. Raises JobNotFoundError."""
        pause_s = _FIRST_PAUSE_S
        while True:
            found = await self._look_up(job_id)
            if isinstance(found, Ending):
                return found
            await self._wait_finished(found, pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * _GROWTH)

    async def _look_up(self, job_id: str) -> Job | Ending:
        """How a job ended, or how it stands if it has not. Raises JobNotFoundError."""
        found: Job | Ending | None = await self._submit(LookUp(job_id))
        found = found or await self._find_archived(job_id)
        if found is None:
            raise JobNotFoundError(
                job_id,
                f"job {job_id} is neither in the queue nor in its archive: never enqueued, not kept any"
                " more, or the queue has no archive",
            )
        if isinstance(found, Job) and found.status is JobStatus.DEAD:
            return Ending(FinishedStatus.DEAD, found.error)
        return found
