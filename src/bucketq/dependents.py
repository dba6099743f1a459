"""Dependents: which jobs wait for which, and what becomes of them when one of those is finished.

    enqueue(after=[a, b]) ──▶ BLOCKED ── a and b are done ──▶ QUEUED, or SCHEDULED if it is for later
                                 └────── one did not succeed ──▶ cancelled, or (if_dead="run") as if done

A job can only wait for jobs that exist, so none waits for itself, and there are no circles.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec.structs import replace

from bucketq.errors import JobNotFoundError, ParentsUnknownError
from bucketq.job import IfDead, Job, JobStatus


class Dependents:
    """The blocked jobs in queue.json: `children`, by the ids of those they wait for."""

    def __init__(self) -> None:
        # Dicts as sets that keep their order.
        self.children: dict[str, dict[str, None]] = {}

    def of(self, parent_id: str) -> list[str]:
        """The ids of the jobs that wait for this one."""
        return list(self.children.get(parent_id, ()))

    def change(self, job: Job, step: int) -> None:
        """Take note that a blocked job has come, or (-1) gone."""
        for parent_id in job.after:
            if step > 0:
                self.children.setdefault(parent_id, {})[job.id] = None
            elif children := self.children.get(parent_id):
                children.pop(job.id, None)
                if not children:
                    del self.children[parent_id]


class Fates(dict[str, bool]):
    """Whether jobs that others wait for succeeded; of those in `open` that is not decided."""

    def __init__(self, finished: Iterable[tuple[str, bool]] = ()) -> None:
        super().__init__(finished)
        self.open: set[str] = set()


def without(job: Job, finished: Iterable[str], now: datetime) -> Job:
    """A blocked job when some of those that it waits for are finished; in line if those were the last."""
    finished = frozenset(finished)
    left = tuple(one for one in job.after if one not in finished)
    if left:
        return replace(job, after=left, status=JobStatus.BLOCKED)
    is_for_later = job.run_at is not None and job.run_at > now
    return replace(job, after=(), status=JobStatus.SCHEDULED if is_for_later else JobStatus.QUEUED)


def is_cancelled_by(job: Job, *, succeeded: bool) -> bool:
    """Whether a job is not to be done because one that it waits for ended like this."""
    return not succeeded and job.if_dead is IfDead.CANCEL


def reason_for(parent_id: str) -> str:
    """Why a job was cancelled."""
    return f"job {parent_id}, for which it waited, did not succeed"


def cancelled_at_once(job: Job, reason: str) -> Job:
    """What is told of a new job that is not to be done because one that it waits for did not succeed."""
    return replace(job, status=JobStatus.BLOCKED, is_cancelled=True, error=reason)


def placed(job: Job, fate: Callable[[str], bool | None], now: datetime) -> tuple[Job, str | None]:
    """A new job with only those in `after` that are not finished, and why it is not to be done, if it is not.

    `fate` tells of a job whether it succeeded, or None while that is open; it raises JobNotFoundError if
    that cannot be told. Raises ParentsUnknownError with all of those.
    """
    finished, unknown, reason = list[str](), list[str](), None
    for parent_id in job.after:
        try:
            succeeded = fate(parent_id)
        except JobNotFoundError:
            unknown.append(parent_id)
            continue
        if succeeded is not None:
            finished.append(parent_id)
            if reason is None and is_cancelled_by(job, succeeded=succeeded):
                reason = reason_for(parent_id)
    if unknown:
        raise ParentsUnknownError(tuple(unknown))
    return without(job, finished, now), reason
