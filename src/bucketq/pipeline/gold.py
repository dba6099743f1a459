"""Gold: what happened, by entrypoint and time, from the jobs in silver.

- `activity`: enqueued, finished, failed, retried, percentiles of waiting and running, concurrency and
  utilisation, by minute, hour and day. A row without an entrypoint is about all of them together.
- `errors`: how often each class of error came, with an example. `slowest`: the slowest jobs.
- `slo`: the share of jobs within the targets. `trends`: against a week before, and what is unusual.

The days that silver has changed are made again as a whole, and so are earlier days on which jobs
were enqueued, or ran, that are finished only now.
"""

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bucketq.pipeline.bronze import ingested_days
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.silver import SILVER, read_silver
from bucketq.pipeline.targets import Targets

GOLD = "gold"
WINDOWS = {"minute": 60, "hour": 3600, "day": 86400}
SLOWEST = 10
# Nothing works for longer. A claim that a wrong clock has put into 1970 must not fill every minute since.
BUSY_DAYS_MAX = 31
# An unusual day is so many standard deviations off the mean of the four weeks before it.
_UNUSUAL = 3
# What is steady still moves a little: by a share of its mean, and by so much.
_STEADY = {"finished": (0.05, 1.0), "failed_share": (0.0, 0.01), "run_p95_s": (0.1, 0.01)}
_BEFORE_DAYS = 28
_BEFORE_DAYS_MIN = 7


def aggregate(lake: Lake, targets: Targets) -> list[str]:
    """Make the days anew that silver or other targets have changed; return them."""
    refined, done = lake.note(SILVER).get("ingest", -1), lake.note(GOLD)
    wanted = msgspec.to_builtins(targets)
    if done.get("ingest", -1) == refined and (not done or done.get("targets") == wanted):
        return []
    changed = ingested_days(lake, done.get("ingest", -1), refined)
    if changed:
        _aggregate_days(lake, changed)
    silver_days = lake.days(SILVER)
    slo_days = (
        silver_days if done.get("targets") != wanted else [day for day in changed if day in silver_days]
    )
    if slo_days:
        # Should this be interrupted, the next run must not take the old note for what is there.
        lake.write_note(GOLD, {**done, "targets": None})
    _write_slo(lake, targets, slo_days)
    lake.write_note(GOLD, {"ingest": refined, "targets": wanted})
    return changed


def _aggregate_days(lake: Lake, changed: list[str]) -> None:
    if not lake.days(SILVER):
        return
    jobs = read_silver(lake)
    finished = jobs.where(F.col("day").isin(changed))
    # Nothing of these days may be there that can be read.
    touched = _touched(finished) or changed
    since = jobs.where(F.col("day") >= F.lit(touched[0]).cast("date"))
    for window in WINDOWS:
        _remove_days(lake, touched, "activity", f"window={window}")
    _append(lake, "activity", _activity(since, touched), "window", "day")
    _replace(lake, "errors", _errors(finished), changed)
    _replace(lake, "slowest", _slowest(finished), changed)
    if not lake.days(GOLD, "activity", "window=day"):
        return
    trends = _trends(lake.read(GOLD, "activity").where("window = 'day'"))
    trends.coalesce(1).write.mode("overwrite").parquet(lake.path(GOLD, "trends"))


def _touched(finished: DataFrame) -> list[str]:
    """The days on which these jobs were enqueued, ran or finished; while they wait nothing happens."""
    enqueued_and_finished = F.array(F.to_date(_enqueued_at()), F.to_date("finished_at"), "day")
    days = finished.select(F.explode(enqueued_and_finished).alias("day"))
    days = days.union(_attempts(finished).select(F.explode(_days_of_attempt()))).distinct()
    return sorted(str(row.day) for row in days.collect())


def _activity(jobs: DataFrame, days: list[str]) -> DataFrame:
    enqueued = jobs.select("entrypoint", _enqueued_at().alias("at"), F.lit(1).alias("enqueued"))
    finished = jobs.select(
        "entrypoint",
        F.col("finished_at").alias("at"),
        F.lit(1).alias("finished"),
        F.expr("int(status = 'dead')").alias("failed"),
        F.expr("int(attempts_total > 1)").alias("retried"),
        "wait_s",
        "run_s",
    )
    events = _and_all_together(enqueued.unionByName(finished, allowMissingColumns=True))
    events = events.unionByName(_busy(jobs, days), allowMissingColumns=True)
    events = events.where(F.to_date("at").isin(days))
    windows = F.array(
        *(F.struct(F.lit(name).alias("window"), F.date_trunc(name, "at").alias("start")) for name in WINDOWS)
    )
    events = events.withColumn("in", F.explode(windows)).select("*", "in.window", "in.start")
    seconds = F.element_at(F.create_map(*_literals(WINDOWS)), F.col("window"))
    counted = events.groupBy("window", "start", "entrypoint").agg(
        *(
            F.coalesce(F.sum(name), F.lit(0)).alias(name)
            for name in ("enqueued", "finished", "failed", "retried")
        ),
        _percentiles("wait_s"),
        _percentiles("run_s"),
        F.coalesce(F.sum("busy_s"), F.lit(0.0)).alias("busy_s"),
        F.sum("used_s").alias("used_s"),
        F.size(F.collect_set("worker")).alias("workers"),
    )
    return counted.select(
        "window",
        "start",
        "entrypoint",
        *("enqueued", "finished", "failed", "retried"),
        *_named("wait_s"),
        *_named("run_s"),
        (F.col("busy_s") / seconds).alias("concurrency"),
        "workers",
        F.when(F.col("workers") > 0, F.col("used_s") / (F.col("workers") * seconds)).alias("utilisation"),
        F.to_date("start").alias("day"),
    )


def _enqueued_at() -> Column:
    # A job that says it is younger than its end: otherwise its day could come after those that are read.
    return F.least("created_at", "finished_at")


def _and_all_together(rows: DataFrame) -> DataFrame:
    """Each row twice: as one of its entrypoint, and as one of all, which has none."""
    return rows.withColumn("entrypoint", F.explode(F.array("entrypoint", F.lit(None).cast("string"))))


def _busy(jobs: DataFrame, days: list[str]) -> DataFrame:
    """How long each worker was busy in each minute: with every job it ran, and at most the whole minute."""
    wanted = F.array(*(F.lit(day).cast("date") for day in days))
    attempts = _attempts(jobs).where(F.arrays_overlap(_days_of_attempt(), wanted))
    minute = "date_trunc('minute', {})"
    minutes = f"sequence({minute.format('busy_from')}, {minute.format('busy_until')}, interval 1 minute)"
    each = attempts.withColumn("at", F.explode(F.expr(minutes))).where(F.to_date("at").isin(days))
    begin, end = "greatest(busy_from, at)", "least(busy_until, at + interval 1 minute)"
    busy_s = F.expr(f"(unix_micros({end}) - unix_micros({begin})) / 1e6")
    each = _and_all_together(each.select("entrypoint", "worker", "at", busy_s.alias("busy_s")))
    by_worker = each.groupBy("entrypoint", "worker", "at").agg(F.sum("busy_s").alias("busy_s"))
    used_s = F.when(F.col("worker").isNotNull(), F.least("busy_s", F.lit(60.0)))
    return by_worker.withColumn("used_s", used_s)


def _attempts(jobs: DataFrame) -> DataFrame:
    """The attempts of jobs, each with the time for which it kept its worker busy."""
    attempts = jobs.select("entrypoint", "finished_at", F.explode("attempts").alias("a"))
    attempts = attempts.select(
        "entrypoint", "a.worker", "a.claimed_at", F.least("a.ended_at", "finished_at").alias("busy_until")
    )
    longest = F.expr(f"busy_until - interval {BUSY_DAYS_MAX} days")
    attempts = attempts.withColumn("busy_from", F.greatest("claimed_at", longest))
    return attempts.where("busy_until >= busy_from")


def _days_of_attempt() -> Column:
    return F.sequence(F.to_date("busy_from"), F.to_date("busy_until"))


def _percentiles(name: str) -> Column:
    return F.percentile_approx(name, [0.5, 0.95, 0.99], 10_000).alias(name)


def _named(name: str) -> list[Column]:
    stem = name.removesuffix("_s")
    return [F.col(name)[place].alias(f"{stem}_p{level}_s") for place, level in enumerate((50, 95, 99))]


def _literals(values: dict[str, int]) -> list[Column]:
    return [F.lit(part) for pair in values.items() for part in pair]


def _errors(jobs: DataFrame) -> DataFrame:
    """Failed attempts by the class of their error: what stands before its first colon."""
    attempts = jobs.select("day", "id", "entrypoint", F.explode("attempts").alias("a"))
    failed = attempts.select("day", "id", "entrypoint", "a.*").where(
        "outcome IN ('failed', 'timed_out', 'stale')"
    )
    of_class = F.regexp_extract(F.coalesce("error", F.lit("")), r"^([A-Za-z_][\w.]*)\s*(?::|$)", 1)
    failed = failed.withColumn("class", F.when(of_class == "", "other").otherwise(of_class))
    return failed.groupBy("day", "entrypoint", "class").agg(
        F.count("*").alias("attempts"),
        F.max_by("error", "ended_at").alias("example"),
        F.max_by("id", "ended_at").alias("example_id"),
        F.max("ended_at").alias("last_at"),
    )


def _slowest(jobs: DataFrame) -> DataFrame:
    slowest_first = Window.partitionBy("day", "entrypoint").orderBy(F.desc("total_s"), "id")
    placed = jobs.withColumn("place", F.row_number().over(slowest_first)).where(F.col("place") <= SLOWEST)
    return placed.select(
        "day", "entrypoint", "place", "id", "status", "wait_s", "run_s", "total_s", "attempts_total"
    )


def _write_slo(lake: Lake, targets: Targets, days: list[str]) -> None:
    if not days:
        return
    rows = [(name, one.wait_s, one.run_s, one.success) for name, one in targets.of.items()]
    own = lake.spark.createDataFrame(rows, "entrypoint string, wait double, run double, share double")
    default = targets.default
    jobs = read_silver(lake).where(F.col("day").isin(days)).join(F.broadcast(own), "entrypoint", "left")
    jobs = jobs.withColumn("wait_target_s", F.coalesce("wait", F.lit(default.wait_s)))
    jobs = jobs.withColumn("run_target_s", F.coalesce("run", F.lit(default.run_s)))
    # Nobody owes what was cancelled, or not wanted any more in time.
    jobs = jobs.where("status IN ('completed', 'dead')")
    within = "status = 'completed' AND wait_s <= wait_target_s AND run_s <= run_target_s"
    counted = jobs.groupBy("day", "entrypoint").agg(
        F.count("*").alias("jobs"),
        F.avg(F.expr(f"int({within})")).alias("attained"),
        F.avg(F.expr("int(wait_s <= wait_target_s)")).alias("within_wait"),
        F.avg(F.expr("int(run_s <= run_target_s)")).alias("within_run"),
        F.avg(F.expr("int(status = 'completed')")).alias("completed"),
        F.max("wait_target_s").alias("wait_target_s"),
        F.max("run_target_s").alias("run_target_s"),
        F.max(F.coalesce("share", F.lit(default.success))).alias("wanted"),
    )
    _replace(lake, "slo", counted.withColumn("is_met", F.expr("attained >= wanted")), days)


def _trends(days: DataFrame) -> DataFrame:
    """Each day against the same one a week before, and against the four weeks before."""
    days = _without_gaps(days.where("finished > 0"))
    days = days.withColumn("number", F.unix_date("day"))
    days = days.withColumn("failed_share", F.expr("failed / nullif(finished, 0)"))
    line = Window.partitionBy("entrypoint").orderBy("number")
    week_before, before = line.rangeBetween(-7, -7), line.rangeBetween(-_BEFORE_DAYS, -1)
    # The last day may not be over.
    is_over = F.col("number") < F.max("number").over(Window.partitionBy())
    flags = []
    for name, (of_mean, at_least) in _STEADY.items():
        mean, spread = F.avg(name).over(before), F.stddev_pop(name).over(before)
        is_off = F.abs(F.col(name) - mean) > _UNUSUAL * F.greatest(spread, of_mean * mean + at_least)
        is_known = F.count(name).over(before) >= _BEFORE_DAYS_MIN
        flags.append(F.when(is_over & is_known & is_off, F.lit(name)))
    last_week = F.max("finished").over(week_before)
    return days.select(
        "day",
        "entrypoint",
        "finished",
        "failed_share",
        "run_p95_s",
        last_week.alias("finished_week_before"),
        ((F.col("finished") - last_week) / F.nullif(last_week, F.lit(0))).alias("week_over_week"),
        F.array_compact(F.array(*flags)).alias("unusual"),
    )


def _without_gaps(days: DataFrame) -> DataFrame:
    """Add the days on which an entrypoint finished nothing, from its first day to the last one of all."""
    spans = days.groupBy("entrypoint").agg(F.min("day").alias("first"), F.max("day").alias("last"))
    last = F.max("last").over(Window.partitionBy())
    every = spans.select("entrypoint", F.sequence("first", last).alias("days"))
    idle = every.select("entrypoint", F.explode("days").alias("day")).selectExpr("*", "0L AS finished")
    days = days.select("entrypoint", "day", "finished", "failed", "run_p95_s")
    days = days.unionByName(idle, allowMissingColumns=True)
    return days.groupBy("entrypoint", "day").agg(
        F.sum("finished").alias("finished"),
        F.sum("failed").alias("failed"),
        F.max("run_p95_s").alias("run_p95_s"),
    )


def _replace(lake: Lake, table: str, frame: DataFrame, days: list[str]) -> None:
    _remove_days(lake, days, table)
    _append(lake, table, frame, "day")


def _remove_days(lake: Lake, days: list[str], *parts: str) -> None:
    for day in days:
        lake.remove(GOLD, *parts, f"day={day}")


def _append(lake: Lake, table: str, frame: DataFrame, *partitions: str) -> None:
    frame.write.partitionBy(*partitions).mode("append").parquet(lake.path(GOLD, table))
