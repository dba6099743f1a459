"""Makes what lets tests start Spark quickly: see jvm.py. Usage: python -m tests.spark.class_data

The archive is made from a session that does what tests do. Tests run without it too, only more slowly.
"""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyspark

from bucketq import DirectQueue, LocalFileSystemStorage, Settings
from bucketq.spark import local_session
from tests.spark.jvm import ARCHIVE, HOME, java_options, submit_arguments


async def fill(path: Path) -> None:
    """Finish two jobs and let one wait; one of the two has failed once."""
    q = DirectQueue(LocalFileSystemStorage(path), Settings(archive_jobs_max=1))
    await q.enqueue_many("mail", range(3))
    [job] = await q.dequeue("mail")
    await q.nack(job, "ValueError: not yet")
    await q.ack_many(await q.dequeue("mail", batch_size=2))
    await q.stats()


def work(folder: Path) -> None:
    """Do a little of everything: the pipeline, its report, a replay, tables and a stream."""
    # Only here: without Spark, the message of `local_session` says what is missing.
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.replay import replay
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.run import run

    spark = local_session("local[2]", settings={"spark.sql.shuffle.partitions": "1"}, is_quiet=True)
    try:
        queue, source = folder / "queue.json", {"url": f"file://{folder}/queue.json"}
        asyncio.run(fill(queue))
        run(spark, source, f"{folder}/lake")
        lake = Lake(spark, f"{folder}/lake")
        find(lake, days=1)
        replay(lake, "status = 'completed'", source)
        spark.read.format("bucketq").options(**source, table="jobs").load().collect()
        spark.range(2).selectExpr("string(id) AS payload").write.json(f"{folder}/files")
        rows = spark.readStream.schema("payload string").json(f"{folder}/files").writeStream
        rows = rows.format("bucketq").options(**source, entrypoint="mail", checkpointLocation=f"{folder}/c")
        rows.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.stop()


def main() -> None:
    """Make the archive, or say why there is none."""
    make_home()
    os.environ["SPARK_HOME"] = str(HOME)
    ARCHIVE.unlink(missing_ok=True)
    # Under another name until it is whole.
    new = ARCHIVE.with_suffix(".new")
    new.unlink(missing_ok=True)
    options = f"{java_options()} -XX:ArchiveClassesAtExit={new} -Xlog:disable"
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(options)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            work(Path(folder))
            end_java()
            new.rename(ARCHIVE)
        except Exception as error:
            print(f"setup: tests of Spark will start slowly, or skip: {error}", file=sys.stderr)


def make_home() -> None:
    """A home of Spark that has everything but pyspark.zip."""
    package = Path(pyspark.__file__).parent
    HOME.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        (HOME / name).unlink(missing_ok=True)
        (HOME / name).symlink_to(package / name)


def end_java() -> None:
    """Java writes the archive when it ends, and it ends when nobody speaks to it any more."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
