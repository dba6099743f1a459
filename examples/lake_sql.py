"""The lake of a queue, asked by SQL: by Spark, and by DuckDB, which reads the same Parquet.

    archive ── bucketq pipeline ──▶ lake/silver (a row a job), lake/gold (figures by minute, hour, day)

    cd examples
    python lake_sql.py                                                 # makes queue and lake here
    bucketq pipeline run --url s3://my-bucket/jobs.json --out lake     # the lake of another queue

Where one machine is enough, the lake needs Spark only to be made: DuckDB answers in milliseconds.
"""

from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

import bucketq.sync
from bucketq import Settings
from bucketq.pipeline.run import run
from bucketq.spark import local_session

FOLDER = Path.cwd()
URL = (FOLDER / "queue.json").as_uri()
LAKE = str(FOLDER / "lake")

# The same text for both. Day by day, all entrypoints by themselves.
ACTIVITY = """
    SELECT entrypoint, sum(finished) AS finished, sum(failed) AS failed
    FROM activity WHERE activity.window = 'day' AND entrypoint IS NOT NULL
    GROUP BY entrypoint ORDER BY entrypoint"""
SLOWEST = "SELECT entrypoint, status, total_s FROM silver ORDER BY total_s DESC LIMIT 1"


def make_queue() -> None:
    """Twenty mails and ten reports, of which one is dead."""
    # A full batch goes to the archive at once.
    with bucketq.sync.connect(URL, settings=Settings(archive_jobs_max=10)) as queue:
        queue.enqueue_many("mail", range(20))
        queue.enqueue_many("report", range(10), max_attempts=1)
        for job in queue.dequeue(batch_size=30):
            if (job.entrypoint, job.json()) == ("report", 3):
                queue.nack(job, "LookupError: no such customer")
            else:
                queue.ack(job)


def ask_archive(spark: SparkSession) -> list[tuple[object, ...]]:
    """Without a lake: the archive itself is a table, as new as the queue."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW archive USING bucketq OPTIONS (url '{URL}')")
    question = "SELECT entrypoint, status, count(*) FROM archive GROUP BY ALL ORDER BY ALL"
    return [tuple(row) for row in spark.sql(question).collect()]


def ask_spark(spark: SparkSession) -> list[tuple[object, ...]]:
    """The lake by Spark SQL."""
    spark.read.parquet(f"{LAKE}/gold/activity").createOrReplaceTempView("activity")
    return [tuple(row) for row in spark.sql(ACTIVITY).collect()]


def ask_duckdb() -> list[tuple[object, ...]]:
    """The lake by DuckDB: folders such as `day=2026-11-18` are columns."""
    database = duckdb.connect()
    for name, folder in (("activity", "gold/activity"), ("silver", "silver")):
        files = f"read_parquet('{LAKE}/{folder}/**/*.parquet', hive_partitioning = true)"
        database.execute(f"CREATE VIEW {name} AS SELECT * FROM {files}")
    [(entrypoint, status, total_s)] = database.sql(SLOWEST).fetchall()
    print(f"the slowest was a {entrypoint}, {status}")
    assert total_s >= 0
    return database.sql(ACTIVITY).fetchall()


def main() -> None:
    make_queue()
    spark = local_session()
    for row in ask_archive(spark):
        print("archive:", *row)
    outcome = run(spark, {"url": URL}, LAKE)
    assert outcome.is_sound, outcome.checks
    by_spark, by_duckdb = ask_spark(spark), ask_duckdb()
    for row in by_duckdb:
        print("lake:", *row)
    print("Spark and DuckDB agree" if by_spark == by_duckdb else f"Spark says {by_spark}")


if __name__ == "__main__":
    main()
