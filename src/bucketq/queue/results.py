"""Results: waiting until a job is finished."""

import asyncio
from typing import Any

from bucketq.duration import Duration, seconds_of
from bucketq.ending import Ending
from bucketq.job import Claim, Job
from bucketq.operation import LookUp
from bucketq.queue.channel import Channel
from bucketq.results import result_of


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
                return await result_of(job_id, self._look_up, self._find_archived, self._wait_finished)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {job_id} is not finished after {timeout_s:g} s") from error

    async def _look_up(self, job_id: str) -> Job | Ending | None:
        found: Job | Ending | None = await self._submit(LookUp(job_id))
        return found
