"""A driver on the cluster. Usage: on_cluster.py MASTER; each line of its input is STEP URL FOLDER.

A step prints what it found, as one line. The files in FOLDER tell when to go on.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bucketq import App, Running, provided
from bucketq.pipeline import silver
from bucketq.pipeline.run import run
from bucketq.spark import run as run_fleet

WAIT_S = 100


def wait_for(path, or_note):
    until_s = time.monotonic() + WAIT_S
    while not Path(path).exists():
        if time.monotonic() > until_s:
            Path(or_note).write_text("")
            raise TimeoutError(path)
        time.sleep(0.05)


def rows(spark, count, partitions):
    payload = F.to_json(F.struct(F.col("id").alias("n")))
    return spark.range(0, count, 1, partitions).select(
        F.lit("mail").alias("entrypoint"), payload.alias("payload")
    )


def write(frame, url, **options):
    frame.write.format("bucketq").options(url=url, **options).mode("append").save()


def killed(spark, url, folder):
    """Write, while somebody kills an executor: every task waits with a segment written."""
    flag = f"{folder}/go"

    def wait(batches):
        context = TaskContext.get()
        Path(f"{folder}/attempt-{context.partitionId()}-{context.attemptNumber()}").write_text("")
        for number, batch in enumerate(batches):
            yield batch
            if number == 1:
                wait_for(flag, or_note=f"{folder}/timeout")

    frame = rows(spark, 40_000, 2)
    write(frame.mapInArrow(wait, frame.schema), url)
    return {}


def speculated(spark, url, folder):
    """Write with a task that is slow, so that a second one does the same; then both end."""
    flag = f"{folder}/speculated"

    def be_slow(batches):
        yield from batches
        context = TaskContext.get()
        if context.partitionId() == 3:
            if context.attemptNumber() == 0:
                wait_for(flag, or_note=f"{folder}/timeout")
            else:
                Path(flag).write_text("")

    frame = rows(spark, 40_000, 4)
    write(frame.mapInArrow(be_slow, frame.schema), url)
    return {}


def read(spark, url, folder):
    """Read both tables, as a table and as a stream."""

    def frame(reader, table):
        return reader.format("bucketq").options(url=url, table=table).load()

    stream = frame(spark.readStream, "archive").select("id").writeStream.format("parquet")
    stream = stream.options(checkpointLocation=f"{folder}/checkpoint", path=f"{folder}/out")
    stream.trigger(availableNow=True).start().awaitTermination()
    return {
        "archive": frame(spark.read, "archive").count(),
        "jobs": frame(spark.read, "jobs").count(),
        "stream": spark.read.parquet(f"{folder}/out").distinct().count(),
    }


def connected(spark, url, folder):
    """Write by a batch and by a stream, and read."""
    write(rows(spark, 8_000, 4), url)
    rows(spark, 100, 1).selectExpr("get_json_object(payload, '$.n') AS n").write.json(f"{folder}/files")
    stream = (
        spark.readStream.schema("n string").json(f"{folder}/files").selectExpr("n AS payload").writeStream
    )
    stream = stream.format("bucketq").options(
        url=url, entrypoint="number", checkpointLocation=f"{folder}/sink"
    )
    stream.trigger(availableNow=True).start().awaitTermination()
    return read(spark, url, folder)


def stopped_at_gold(spark, url, folder):
    """Run the pipeline up to gold, and wait there to be killed."""

    def on_step(name):
        if name == "gold":
            Path(f"{folder}/gold").write_text("")
            wait_for(f"{folder}/never", or_note=f"{folder}/timeout")

    run(spark, {"url": url}, f"{folder}/lake", on_step=on_step)


def disturbed(spark, url, folder):
    """Run the pipeline, while somebody kills an executor that makes silver: its tasks wait for that."""
    typed = silver._typed

    def wait(batches):
        context = TaskContext.get()
        name = f"{context.partitionId()}-{context.attemptNumber()}-{executor()}"
        Path(f"{folder}/began-{name}").write_text("")
        wait_for(f"{folder}/go", or_note=f"{folder}/timeout")
        yield from typed(batches)
        Path(f"{folder}/ended-{name}").write_text("")

    silver._typed = wait
    try:
        outcome = run(spark, {"url": url}, f"{folder}/lake")
    finally:
        silver._typed = typed
    return {"is_sound": outcome.is_sound}


def fleet(spark, url, folder):
    """Run an app's jobs, while somebody kills an executor: the first job of each task waits for that."""
    app = App(url)

    @app.job
    def work(n: int, running: Running = provided()) -> int:
        name = f"{n}-{running.attempt}-{executor()}"
        Path(f"{folder}/began-{name}").write_text("")
        wait_for(f"{folder}/go", or_note=f"{folder}/timeout")
        return n

    return asdict(run_fleet(app, spark, until_empty=True))


def executor():
    """The executor of a task: the parent of its Python process' parent."""
    return Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]


ALL_STEPS = (killed, speculated, read, connected, stopped_at_gold, disturbed, fleet)
STEPS = {step.__name__: step for step in ALL_STEPS}


SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.locality.wait": "0s",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    # Longer than most tasks take, also where the machine is busy: else many would run twice for nothing.
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.sql.shuffle.partitions": "1",
}


def main(master):
    builder = SparkSession.builder
    if master.startswith("spark://"):
        builder = builder.master(master)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
    else:
        builder = builder.remote(master)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        step, url, folder = line.split()
        print(json.dumps(STEPS[step](spark, url, folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
