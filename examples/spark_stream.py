"""Two streams around a queue: files that arrive become jobs, and finished jobs become a table.

    inbox/*.json ── stream ──▶ queue.json ── fleet ──▶ archive ── stream ──▶ finished/*.parquet

    cd examples
    python spark_stream.py         # takes in what is new, and ends; run it again after `more`
    python spark_stream.py more    # puts 100 more readings into the inbox before

Each stream keeps in its checkpoint how far it has come. Kill it anywhere and start it again: no reading
is enqueued twice, and no job is in the table twice or missing.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketq import App, Settings
from bucketq.spark import local_session, run

FOLDER = Path.cwd()
# The stream reads what is in the archive. There jobs come by batches of 850, or after ten minutes; an example
# does not wait, and lets every commit send what it has finished.
app = App((FOLDER / "queue.json").as_uri(), settings=Settings(archive_jobs_max=1))


@app.job
def convert(sensor: int, fahrenheit: float) -> float:
    return round((fahrenheit - 32) / 1.8, 1)


def put_readings(count: int) -> None:
    """Somebody else's program: a new file in the inbox."""
    inbox = FOLDER / "inbox"
    inbox.mkdir(exist_ok=True)
    lines = (json.dumps({"sensor": number % 7, "fahrenheit": 32.0 + number}) for number in range(count))
    (inbox / f"{len(list(inbox.iterdir()))}.json").write_text("\n".join(lines))


def enqueue_new(spark: SparkSession) -> None:
    """Readings become jobs, a commit for each micro-batch."""
    readings = spark.readStream.schema("sensor int, fahrenheit double").json(str(FOLDER / "inbox"))
    jobs = readings.select(
        F.lit(convert.entrypoint).alias("entrypoint"), F.to_json(F.struct("*")).alias("payload")
    )
    sink = jobs.writeStream.format("bucketq").option("url", app.url)
    sink = sink.option("checkpointLocation", str(FOLDER / "checkpoints" / "in"))
    sink.trigger(availableNow=True).start().awaitTermination()


def table_new(spark: SparkSession) -> None:
    """Finished jobs become rows. A micro-batch that Spark repeats overwrites its own folder."""

    def write(batch: DataFrame, number: int) -> None:
        payload = F.from_json("payload_json", "sensor int, fahrenheit double")
        rows = batch.select(
            "id", "finished_at", payload.alias("reading"), F.col("result").cast("double").alias("celsius")
        )
        rows.select("id", "finished_at", "reading.*", "celsius").write.mode("overwrite").parquet(
            str(FOLDER / "finished" / f"batch={number}")
        )

    source = spark.readStream.format("bucketq").option("url", app.url).option("status", "completed")
    query = source.load().writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", str(FOLDER / "checkpoints" / "out"))
    query.trigger(availableNow=True).start().awaitTermination()


def main(*words: str) -> None:
    if "more" in words or not (FOLDER / "inbox").exists():
        put_readings(100)
    spark = local_session()
    enqueue_new(spark)
    tally = run(app, spark, until_empty=True)
    table_new(spark)
    rows = spark.read.parquet(str(FOLDER / "finished"))
    warmest = rows.agg(F.count("*").alias("rows"), F.max("celsius").alias("celsius")).first()
    assert warmest is not None
    print(f"converted {tally.completed}; the table has {warmest.rows} rows, the warmest {warmest.celsius} °C")


if __name__ == "__main__":
    main(*sys.argv[1:])
