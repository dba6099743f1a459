"""A schedule as it is told in JSON."""

from datetime import datetime

from bucketq.schedule import Missed, Schedule
from bucketq.told.job import JobTold
from bucketq.told.shape import Told


class ScheduleTold(Told, kw_only=True):
    """A schedule, with its next tick and the last one that was fired. `job` is the model of its jobs."""

    name: str
    cron: str | None = None
    tz: str = "UTC"
    every: float = 0.0
    missed: Missed = Missed.LAST
    next_at: datetime | None = None
    last_at: datetime | None = None
    job: JobTold

    @classmethod
    def of(cls, schedule: Schedule) -> "ScheduleTold":
        """A schedule as it is told."""
        return cls(
            name=schedule.name,
            cron=schedule.cron,
            tz=schedule.tz,
            every=schedule.every_s,
            missed=schedule.missed,
            next_at=schedule.next_at,
            last_at=schedule.last_at,
            job=JobTold.of(schedule.job),
        )
