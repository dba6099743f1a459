"""Schedules <-> messages."""

from datetime import datetime

from bucketq.errors import ConfigurationError
from bucketq.mint import Mint
from bucketq.schedule import Missed, Schedule
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire.jobs import new_job_message, new_job_of
from bucketq.wire.moments import microseconds, moment


def schedule_message(schedule: Schedule) -> pb.Schedule:
    """A schedule for the wire."""
    return pb.Schedule(
        name=schedule.name,
        cron=schedule.cron,
        tz=schedule.tz,
        every_s=schedule.every_s,
        missed=schedule.missed.value,
        next_at_us=microseconds(schedule.next_at),
        last_at_us=microseconds(schedule.last_at),
        job=new_job_message(schedule.job),
    )


def schedule_of(message: pb.Schedule, now: datetime, mint: Mint | None = None) -> Schedule:
    """A schedule from the wire. Raises ConfigurationError."""
    if message.missed not in ("", *Missed):
        raise ConfigurationError(f"missed is 'skip', 'last' or 'all', not {message.missed!r}")
    return Schedule(
        name=message.name,
        cron=message.cron if message.HasField("cron") else None,
        tz=message.tz or "UTC",
        every_s=message.every_s,
        missed=Missed(message.missed or Missed.LAST),
        next_at=moment(message.next_at_us),
        last_at=moment(message.last_at_us),
        job=new_job_of(message.job, now, mint),
    )
