"""Bronze: the lines of the archive as they are, each with where it was and when it was taken in.

A stream over the archive reads what is new. It writes each micro-batch to a folder of its own,
so that one that Spark repeats after a crash replaces itself.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampType

from bucketq.pipeline.lake import Lake
from bucketq.spark.schema import schema_of

BRONZE, QUARANTINE = "bronze", "quarantine"
BRONZE_SCHEMA = schema_of("lines").add("ingested_at", TimestampType()).add("day", DateType())
# A day of the archive is rebuilt with every ingestion that adds to it, so there should be few.
_INGEST_BYTES = 4 * 1024**3


def ingest(lake: Lake, source: Mapping[str, str], ending_version: int) -> None:
    """Take in what the archive has, up to a version, and this lake has not."""
    lines = lake.spark.readStream.format("bucketq").options(**source).option("table", "lines")
    lines = lines.option("ending_version", ending_version).option("max_bytes_per_trigger", _INGEST_BYTES)
    writer = lines.load().writeStream.foreachBatch(lambda frame, number: _take_in(lake, frame, number))
    writer = writer.option("checkpointLocation", lake.path("checkpoint")).trigger(availableNow=True)
    writer.queryName("bucketq pipeline").start().awaitTermination()


def last_ingest(lake: Lake) -> int:
    """The number of the last ingestion that is whole; -1 if there is none."""
    return max(_ingests(lake), default=-1)


def ingested_days(lake: Lake, after: int, until: int) -> list[str]:
    """The days to which some ingestions have added."""
    numbers = [number for number in _ingests(lake) if after < number <= until]
    return sorted({day for number in numbers for day in lake.days(BRONZE, _folder_of(number))})


def _ingests(lake: Lake) -> list[int]:
    """The numbers of the ingestions that are whole."""
    return [
        int(name.partition("=")[2])
        for name in lake.names(BRONZE)
        if name.startswith("ingest=") and lake.exists(BRONZE, name, "_SUCCESS")
    ]


def _folder_of(number: int) -> str:
    """The folder of an ingestion, in bronze and in the quarantine."""
    return f"ingest={number:06}"


def _take_in(lake: Lake, frame: DataFrame, number: int) -> None:
    lines = frame.withColumn("ingested_at", F.lit(datetime.now(UTC))).withColumn("day", _day())
    lines.write.partitionBy("day").mode("overwrite").parquet(lake.path(BRONZE, _folder_of(number)))
    taken_in = lake.read(BRONZE, _folder_of(number), schema=BRONZE_SCHEMA)
    damaged = taken_in.where("reason IS NOT NULL")
    damaged.coalesce(1).write.mode("overwrite").parquet(lake.path(QUARANTINE, _folder_of(number)))


def _day() -> Column:
    """The day on which the jobs of an object finished, as its name tells."""
    return F.to_date(F.regexp_extract("object", r"^archive/(\d{4}-\d\d-\d\d)T", 1))
