"""Selection: which finished jobs somebody asks for."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, Self

from bucketq.archive_name import hour_began, hour_ended
from bucketq.archived_job import ArchivedJob, FinishedStatus
from bucketq.duration import in_utc
from bucketq.errors import ConfigurationError


class Selection(NamedTuple):
    """Those that finished from `since` on and before `until`, of an entrypoint and a status; or all."""

    since: datetime | None = None
    until: datetime | None = None
    entrypoint: str | None = None
    status: FinishedStatus | None = None

    @classmethod
    def of(
        cls,
        since: datetime | None = None,
        until: datetime | None = None,
        entrypoint: str | None = None,
        status: str | None = None,
    ) -> Self:
        """What a user asks for. Raises ConfigurationError."""
        since = None if since is None else in_utc(since, "since")
        until = None if until is None else in_utc(until, "until")
        if status is not None and status not in list(FinishedStatus):
            raise ConfigurationError(f"a finished job is one of {', '.join(FinishedStatus)}, not {status!r}")
        return cls(since, until, entrypoint, None if status is None else FinishedStatus(status))

    def overlaps(self, first_hour: str, last_hour: str) -> bool:
        """Whether jobs that finished in these hours can be among them."""
        begins_too_late = self.until is not None and hour_began(first_hour) >= self.until
        ends_too_soon = self.since is not None and hour_ended(last_hour) <= self.since
        return not begins_too_late and not ends_too_soon

    def among(self, jobs: Iterable[ArchivedJob]) -> Iterator[ArchivedJob]:
        """Those of these jobs that are asked for."""
        for job in jobs:
            if (
                (self.since is None or job.finished_at >= self.since)
                and (self.until is None or job.finished_at < self.until)
                and self.entrypoint in (None, job.entrypoint)
                and self.status in (None, job.status)
            ):
                yield job
