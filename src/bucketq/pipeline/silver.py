"""Silver: a row for each job, typed, with what can be derived, in Parquet by day.

The days that bronze has added to are made again as a whole, so that late jobs find their place
and a job that bronze has twice is there once: the one that was sealed last wins.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from bucketq.archive_selection import Selection
from bucketq.pipeline.bronze import BRONZE, BRONZE_SCHEMA, ingested_days, last_ingest
from bucketq.pipeline.lake import Lake
from bucketq.spark.archived_columns import archived, extra_fields
from bucketq.spark.columns import ARCHIVE
from bucketq.spark.schema import schema_of

SILVER = "silver"
# Rows of a file, about.
_FILE_ROWS = 500_000

_BRONZE_COLUMNS = ("object", "line", "batch", "ingested_at", "day")


def refine(lake: Lake) -> list[str]:
    """Make the days anew that bronze has added to; return them."""
    done, last = lake.note(SILVER).get("ingest", -1), last_ingest(lake)
    if done == last:
        return []
    days = ingested_days(lake, done, last)
    if days:
        _write(lake, lake.read(BRONZE, schema=BRONZE_SCHEMA).where(F.col("day").isin(days)), days)
    lake.write_note(SILVER, {"ingest": last})
    return days


def read_silver(lake: Lake) -> DataFrame:
    """The jobs of a lake, one row each."""
    schema = _typed_schema()
    for name in ("wait_s", "run_s", "total_s"):
        schema.add(name, DoubleType())
    return lake.read(SILVER, schema=schema.add("hour", TimestampType()))


def _write(lake: Lake, bronze: DataFrame, days: list[str]) -> None:
    lines = bronze.where("reason IS NULL")
    rows = lines.select("text", *_BRONZE_COLUMNS).mapInArrow(_typed, _typed_schema())
    files = max(1, -(-lines.count() // (len(days) * _FILE_ROWS)))
    rows = rows.withColumn("bucket", F.expr(f"pmod(xxhash64(id), {files})"))
    # One shuffle for both: the rows of a job come together, and those of a file.
    rows = rows.repartition("day", "bucket")
    last = Window.partitionBy("day", "bucket", "id").orderBy(F.desc("batch"), F.desc("line"))
    rows = rows.withColumn("place", F.row_number().over(last)).where("place = 1").drop("place", "bucket")
    seconds = "(unix_micros({}) - unix_micros({})) / 1e6"
    # Who asked for a delay did not wait while that lasted. (A later time is that of another try.)
    run_at = "to_timestamp(get_json_object(extra, '$.run_at'))"
    wanted_at = f"if({run_at} <= first_claimed_at, greatest(created_at, {run_at}), created_at)"
    rows = (
        rows.withColumn("wait_s", F.expr(seconds.format("first_claimed_at", wanted_at)))
        .withColumn("run_s", F.expr(seconds.format("finished_at", "claimed_at")))
        .withColumn("total_s", F.expr(seconds.format("finished_at", "created_at")))
        .withColumn("hour", F.date_trunc("hour", "finished_at"))
    )
    writer = rows.write.partitionBy("day").mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.parquet(lake.path(SILVER))


def _typed_schema() -> StructType:
    schema = schema_of("archive").add("extra", StringType())
    schema.add("object", StringType()).add("line", IntegerType()).add("batch", LongType())
    return schema.add("ingested_at", TimestampType()).add("day", DateType())


def _typed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Archived jobs as columns, beside where they came from."""
    for batch in batches:
        if batch.num_rows:
            lines = [text.encode() for text in batch["text"].to_pylist()]
            typed = archived(lines, ARCHIVE.names, Selection())
            columns = [*typed.columns, extra_fields(lines), *(batch[name] for name in _BRONZE_COLUMNS)]
            names = [*typed.schema.names, "extra", *_BRONZE_COLUMNS]
            yield pa.RecordBatch.from_arrays(columns, names)
