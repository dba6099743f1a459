"""Ending: how a job ended, as those who wait for its result are told."""

from typing import Any, NamedTuple

from bucketq.archived_job import ArchivedJob, FinishedStatus, decode_archived
from bucketq.errors import JobFailedError, JobNotDoneError


class Ending(NamedTuple):
    """The status of a finished job, with its error or its result."""

    status: FinishedStatus
    error: str | None = None
    result: Any = None

    @classmethod
    def of(cls, job: ArchivedJob) -> "Ending":
        """How an archived job ended."""
        return cls(job.status, job.error, job.result)

    @classmethod
    def of_line(cls, line: bytes) -> "Ending":
        """How the job of a line of the archive ended."""
        return cls.of(decode_archived(line))

    @property
    def succeeded(self) -> bool:
        """Whether the job was done."""
        return self.status is FinishedStatus.COMPLETED

    def told(self, job_id: str) -> Any:
        """The job's result. Raises JobFailedError, or JobNotDoneError if it was never tried to the end."""
        match self.status:
            case FinishedStatus.COMPLETED:
                return self.result
            case FinishedStatus.DEAD:
                raise JobFailedError(job_id, self.error or "no error was given")
        raise JobNotDoneError(job_id, self.error or str(self.status))
