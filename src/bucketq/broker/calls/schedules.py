"""Schedules, in JSON: jobs that are submitted again and again, by the clock."""

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call, given
from bucketq.broker.calls.looking import Nothing
from bucketq.broker.calls.new_job import SingleJob
from bucketq.broker.calls.shapes import IF_BASE64, Name, Seconds
from bucketq.new_job import NAME_MAX
from bucketq.schedule import CRON_MAX, EVERY_MIN_S, TZ_MAX, Missed
from bucketq.told import ScheduleTold, Told

# Not all that is wrong with them can be said in a pattern.
_CRON = {"format": "cron", "examples": ["30 9 * * MON-FRI"]}
_ZONE = {"format": "time-zone", "examples": ["Europe/Vienna"]}
Cron = Annotated[str, Meta(max_length=CRON_MAX, extra_json_schema=_CRON)]
TimeZone = Annotated[str, Meta(max_length=TZ_MAX, extra_json_schema=_ZONE)]
Every = Annotated[float, Meta(ge=EVERY_MIN_S, lt=1e11)]


class PutSchedule(SingleJob):
    """When, by `cron` or `every` so many seconds, and what. Of missed ticks the last one is made up for."""

    rules: ClassVar[dict[str, Any]] = {
        "allOf": [IF_BASE64],
        "oneOf": [{"required": ["cron"]}, {"required": ["every"]}],
        "dependentRequired": {"keyFor": ["key"]},
    }

    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    cron: Cron | UnsetType = UNSET
    tz: TimeZone = "UTC"
    every: Every | UnsetType = UNSET
    missed: Missed = Missed.LAST
    key: Name | UnsetType = UNSET
    key_for: Seconds | UnsetType = UNSET


@call("putSchedule", "PUT /v1/schedules/{name}", Role.PRODUCER)
async def put_schedule(visit: Visit, asked: PutSchedule) -> ScheduleTold:
    """Make a schedule, or replace the one of this name."""
    content, options = asked.content, asked.options
    schedule = await visit.lead(
        lambda queue: queue.schedule(
            asked.name,
            asked.type,
            content,
            asked.priority,
            cron=given(asked.cron),
            tz=asked.tz,
            every=given(asked.every),
            missed=asked.missed.value,
            **options,
        )
    )
    return ScheduleTold.of(schedule)


class SchedulesTold(Told, omit_defaults=False):
    """All schedules."""

    schedules: list[ScheduleTold]


@call("listSchedules", "GET /v1/schedules", Role.VIEWER)
async def list_schedules(visit: Visit, asked: Nothing) -> SchedulesTold:
    """List the schedules."""
    schedules = await visit.lead(lambda queue: queue.schedules())
    return SchedulesTold(schedules=list(map(ScheduleTold.of, schedules)))


class RemoveSchedule(Asked):
    """Which schedule."""

    name: str = ""


@call("removeSchedule", "DELETE /v1/schedules/{name}", Role.PRODUCER)
async def remove_schedule(visit: Visit, asked: RemoveSchedule) -> None:
    """End a schedule; what it has submitted stays."""
    await visit.lead(lambda queue: queue.unschedule(asked.name))


CALLS: list[Call] = [put_schedule, list_schedules, remove_schedule]
