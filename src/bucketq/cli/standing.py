"""How a job stands that cannot be acted upon, in one sentence with the next step."""

from typing import TYPE_CHECKING

from bucketq.cli.lines import complain
from bucketq.words import spell_moment

if TYPE_CHECKING:
    from bucketq.archived_job import ArchivedJob
    from bucketq.job import Job
    from bucketq.queue import Queue


async def standing(queue: "Queue", job_id: str) -> str:
    """What a job is, wherever that is, and what can be done."""
    from bucketq.live.finding import find_finished

    if (job := await queue.find(job_id)) is not None:
        return _of_live(job)
    if found := await find_finished(queue, job_id):
        return _of_finished(found)
    return f"there is no job {job_id}: never enqueued, or not kept in the archive any more"


def tell_refused(refused: "dict[str, str]") -> None:
    """Say of each job, on standard error, why nothing was done."""
    for sentence in refused.values():
        complain(sentence)


def _of_live(job: "Job") -> str:
    from bucketq.job import JobStatus

    if job.status is JobStatus.DEAD:
        return f"job {job.id} is dead; `bucketq retry` does it again, `bucketq discard` forgets it"
    if job.status is JobStatus.IN_PROGRESS:
        return f"job {job.id} runs, on {job.worker or 'a worker'}; `bucketq cancel` has it stopped"
    return f"job {job.id} is {job.status.value}, so it is yet to run; `bucketq cancel` ends it"


def _of_finished(job: "ArchivedJob") -> str:
    from bucketq.archived_job import FinishedStatus

    if job.status is FinishedStatus.DEAD:
        return f"job {job.id} was dead, and has been redriven or discarded; `bucketq show` tells what it was"
    since = spell_moment(job.finished_at)
    return f"job {job.id} is {job.status.value} since {since}; `bucketq enqueue` adds another like it"
