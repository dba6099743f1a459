"""`bucketq cancel`: jobs that are not wanted any more."""

from typing import Annotated

from bucketq.cli.opened import opened_existing
from bucketq.cli.options import AsJson, Url, argument
from bucketq.cli.standing import standing, tell_refused
from bucketq.cli.told import tell_json
from bucketq.errors import JobNotFoundError


async def cancel(
    job_ids: Annotated[list[str], argument("ID", "The jobs.")],
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """End jobs that wait, and have those stopped that run.

    The worker of one that runs hears of it by its next heartbeat. Exit code 1: one of them is finished,
    dead, or not there.
    """
    from bucketq.job import JobStatus

    done, refused = dict[str, str](), dict[str, str]()
    async with opened_existing(url=url) as queue:
        for job_id in dict.fromkeys(job_ids):
            try:
                job = await queue.cancel(job_id)
            except JobNotFoundError as error:
                # Why one that runs cannot be cancelled only the error tells.
                found = await queue.find(job_id)
                runs = found is not None and found.status is JobStatus.IN_PROGRESS
                refused[job_id] = str(error) if runs else await standing(queue, job_id)
            else:
                done[job_id] = "stopping" if job.status is JobStatus.IN_PROGRESS else "cancelled"
    if as_json:
        tell_json({"cancelled": done, "refused": refused})
    else:
        for job_id, how in done.items():
            print(f"{job_id} {how}")
    tell_refused(refused)
    return 1 if refused else 0
