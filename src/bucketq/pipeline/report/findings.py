"""Findings: the figures of a report, small, taken from gold."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from bucketq.errors import ConfigurationError
from bucketq.pipeline.gold import GOLD
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.quality import Check, last_checks

# Of more entrypoints the busiest are shown.
SHOWN = 12
# What is longer than the last of these is shown by the day.
_STEPS = {"minute": timedelta(hours=6), "hour": timedelta(weeks=3)}


@dataclass
class Findings:
    """What the report says."""

    url: str
    since: datetime
    until: datetime
    # Minute, hour or day: what a point of a line stands for.
    step: str
    steps: list[Row]
    hours: list[Row]
    total: Row
    talkers: list[Row]
    errors: list[Row]
    classes: list[Row]
    slowest: list[Row]
    # Of the last day.
    slo: list[Row]
    unusual: list[Row]
    checks: list[Check]


def find(lake: Lake, days: int) -> Findings:
    """The figures of the last days that a lake knows. Raises ConfigurationError if there are none."""
    if not lake.days(GOLD, "activity", "window=day"):
        raise ConfigurationError(f"there is nothing to report in {lake.root} yet: run the pipeline first")
    by_hour = lake.read(GOLD, "activity").where("window = 'hour' AND entrypoint IS NULL")
    last_hour = _utc(by_hour.where("finished > 0").agg(F.max("start")).collect()[0][0])
    first_day = (last_hour - timedelta(days=days - 1)).date()
    first_hour = by_hour.where(F.col("day") >= F.lit(first_day)).agg(F.min("start")).collect()[0][0]
    since, until = _utc(first_hour), last_hour + timedelta(hours=1)
    step = step_of(until - since)

    def recent(table: str) -> DataFrame:
        return lake.read(GOLD, table).where(F.col("day") >= F.lit(first_day))

    by_day = recent("activity").where("window = 'day'")
    sums = [F.sum(name).alias(name) for name in ("enqueued", "finished", "failed", "retried")]
    busy = F.sum(F.col("concurrency") * 86400).alias("busy_s")
    talkers = by_day.where("entrypoint IS NOT NULL").groupBy("entrypoint").agg(*sums, busy)
    of_all = F.col("entrypoint").isNull()
    steps = recent("activity").where(of_all & (F.col("window") == step)).orderBy("start").collect()
    hours = recent("activity").where(of_all & (F.col("window") == "hour")).orderBy("start").collect()
    errors, classes = list[Row](), list[Row]()
    if lake.days(GOLD, "errors"):
        by_class = (
            recent("errors")
            .groupBy("entrypoint", "class")
            .agg(
                F.sum("attempts").alias("attempts"),
                F.max_by("example", "last_at").alias("example"),
                F.max_by("example_id", "last_at").alias("example_id"),
                F.max("last_at").alias("last_at"),
            )
        )
        errors = [_with_utc(row, "last_at") for row in _most(by_class)]
        classes = _most(by_class.groupBy("class").agg(F.sum("attempts").alias("attempts")))
    return Findings(
        url=str(lake.note("source").get("url", "")),
        since=since,
        until=until,
        step=step,
        steps=[_with_utc(row, "start") for row in steps],
        hours=[_with_utc(row, "start") for row in hours],
        total=by_day.where(of_all).agg(*sums, busy).collect()[0],
        talkers=talkers.orderBy(F.desc("finished")).limit(SHOWN).collect(),
        classes=classes,
        errors=errors,
        slowest=recent("slowest").orderBy(F.desc("total_s")).limit(SHOWN).collect(),
        slo=_of_last_day(recent("slo")),
        unusual=recent("trends")
        .where("size(unusual) > 0")
        .orderBy(F.desc("day"), "entrypoint")
        .limit(100)
        .collect(),
        checks=last_checks(lake),
    )


def step_of(length: timedelta) -> str:
    """What a point of a line stands for, so that there are not too many of them."""
    return next((step for step, longest in _STEPS.items() if length <= longest), "day")


def _of_last_day(table: DataFrame) -> list[Row]:
    last = table.agg(F.max("day")).collect()[0][0]
    return table.where(F.col("day") == F.lit(last)).orderBy("is_met", F.desc("jobs")).collect()


def _most(errors: DataFrame) -> list[Row]:
    return errors.orderBy(F.desc("attempts")).limit(SHOWN).collect()


def _utc(moment: datetime) -> datetime:
    # Spark hands moments over in the time of this machine, without saying so.
    return moment.astimezone(UTC)


def _with_utc(row: Row, name: str) -> Row:
    return Row(**{**row.asDict(), name: _utc(row[name])})
