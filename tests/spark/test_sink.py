"""`df.write.format("bucketq")` and `writeStream`: all rows become jobs, or none, and none twice."""

import json
import re
import time

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from bucketq.verify import verify
from tests.spark.cluster import wait_until

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark tables")]


def rows(spark, count, partitions=4):
    payload = F.to_json(F.struct(F.col("id").alias("n")))
    return spark.range(0, count, 1, partitions).select(
        F.lit("mail").alias("entrypoint"), payload.alias("payload")
    )


def write(frame, queue, **options):
    frame.write.format("bucketq").options(url=queue.url, **options).mode("append").save()


def numbers(queue):
    return [job.json()["n"] for job in queue.drain()]


def sound(queue):
    verdict = queue.ask(lambda q: verify(queue.storage))
    assert verdict.problems == []
    return verdict


def test_rows_become_jobs_in_their_order_in_one_commit(spark, queue):
    write(rows(spark, 50_000), queue)
    assert sound(queue).version == 1
    assert numbers(queue) == list(range(50_000))


def test_every_column_counts_and_options_stand_in_for_them(spark, queue):
    frame = spark.createDataFrame(
        [("a", b"\x89PNG", 5, 1), ("b", b"2", None, None), (None, b"3", -1, 9)],
        "entrypoint string, payload binary, priority byte, max_attempts long",
    ).coalesce(1)
    write(frame.withColumnRenamed("payload", "Payload"), queue, entrypoint="other", priority=200)
    jobs = [(job.entrypoint, job.payload, job.priority, job.max_attempts) for job in queue.drain()]
    assert jobs == [("other", b"3", -1, 9), ("a", b"\x89PNG", 5, 1), ("b", b"2", 200, 3)]


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("'a' AS payload", {}, 'no column entrypoint.*option\\("entrypoint", "resize"\\)'),
        ("'a' AS entrypoint", {}, "no column payload"),
        (
            "'a' AS entrypoint, id AS payload",
            {},
            "payload is bigint, and should be a string or binary.*to_json",
        ),
        ("'a' AS entrypoint, struct(id) AS payload", {}, "payload is struct<id:bigint>.*to_json"),
        ("1 AS entrypoint, 'p' AS payload", {}, "entrypoint is int, and should be a string"),
        ("'a' AS entrypoint, 'p' AS payload, 'high' AS priority", {}, "priority is string.*a whole number"),
        ("'a' AS entrypoint, 'p' AS payload, 1 AS colour", {}, "a job has no 'colour': the columns are"),
        ("'a' AS entrypoint, 'p' AS payload", {"priority": "high"}, "priority is a whole number, not 'high'"),
        ("'a' AS entrypoint, 'p' AS payload", {"max_attempts": 0}, "max_attempts is a whole number from 1"),
        ("'a' AS entrypoint, 'p' AS payload", {"load_id": ""}, "load_id has from 1 to 100"),
        (
            "'a' AS entrypoint, 'p' AS payload",
            {"load_number": 1},
            "load_number only makes sense with load_id",
        ),
        ("'a' AS entrypoint, 'p' AS payload", {"since": "2026"}, "a write has no option since"),
        ("'p' AS payload", {"entrypoint": ""}, "an entrypoint is a text of 1 to 250 characters"),
        (
            "'p' AS payload",
            {"entrypoint": "e" * 251},
            "an entrypoint is a text of 1 to 250 characters, not 251",
        ),
    ],
)
def test_what_cannot_be_jobs_is_refused_before_any_task_runs(spark, queue, columns, options, reason):
    ran = spark.sparkContext.accumulator(0)

    def count(batches):
        ran.add(1)
        yield from batches

    frame = spark.range(3).mapInArrow(count, "id long").selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException, match=reason):
        write(frame, queue, **options)
    assert ran.value == 0
    assert not queue.path.exists()


def test_a_row_with_the_name_of_an_entrypoint_that_is_too_long_is_refused(spark, queue):
    frame = spark.range(3).selectExpr("repeat('e', 251) AS entrypoint", "'p' AS payload")
    with pytest.raises(PySparkException, match="an entrypoint is a text of 1 to 250 characters, not 251"):
        write(frame, queue)
    assert not queue.path.exists()


def test_a_queue_is_not_overwritten(spark, queue):
    frame = rows(spark, 3)
    with pytest.raises(PySparkException, match=re.escape('use .mode("append")')):
        frame.write.format("bucketq").option("url", queue.url).mode("overwrite").save()
    queue.path.write_text("{}")
    with pytest.raises(PySparkException, match="is not a readable queue"):
        write(frame, queue)
    assert queue.path.read_text() == "{}"


def test_a_task_that_is_tried_again_adds_nothing_twice(spark, queue):
    def fail_at_the_end(batches):
        yield from batches
        if TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("so near")

    frame = rows(spark, 100_000)
    write(frame.mapInArrow(fail_at_the_end, frame.schema), queue)
    left_behind = set(queue.objects("backlog"))
    assert len(left_behind) > sound(queue).segments, "by attempts that failed"
    assert numbers(queue) == list(range(100_000))
    queue.ask(lambda q: q.collect_garbage(), collect_after_s=0.001)
    assert queue.objects("backlog") == []


def wait_until_idle(spark):
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    give_up_s = time.monotonic() + 60
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        assert time.monotonic() < give_up_s, "tasks still run"
        time.sleep(0.05)


def test_a_write_that_fails_leaves_the_queue_as_it_was(spark, queue):
    def fail_in_one_partition(batches):
        yield from batches
        if TaskContext.get().partitionId() == 3:
            raise RuntimeError("no good")

    write(rows(spark, 10), queue)
    frame = rows(spark, 100_000)
    with pytest.raises(PySparkException, match="no good"):
        write(frame.mapInArrow(fail_in_one_partition, frame.schema), queue)
    assert sound(queue).live == 10
    # Tasks of the other partitions may still write when the write has failed, and their Python after them.
    wait_until_idle(spark)
    wait_until(lambda: collected(queue))


def collected(queue):
    """Whether no object is left beside the queue once its garbage is collected."""
    queue.ask(lambda q: q.collect_garbage(), collect_after_s=0.001)
    return queue.objects("backlog") == []


def test_a_load_with_a_name_is_written_once(spark, queue):
    for _ in range(2):
        write(rows(spark, 30_000), queue, load_id="orders of 2026-02-15")
    write(rows(spark, 10), queue, load_id="orders", load_number=1)
    write(rows(spark, 10), queue, load_id="orders", load_number=1)
    write(rows(spark, 10), queue, load_id="orders", load_number=2)
    assert sound(queue).live == 30_020


class Feed:
    """A stream of files, and a query that enqueues their rows."""

    def __init__(self, spark, folder, name):
        self.spark = spark
        self.files = folder / f"{name}-files"
        self.files.mkdir()
        self.checkpoint = folder / f"{name}-checkpoint"

    def add(self, name, numbers):
        lines = [json.dumps({"n": number}) for number in numbers]
        (self.files / f".{name}").write_text("\n".join(lines))
        (self.files / f".{name}").rename(self.files / f"{name}.json")

    def start(self, queue, **options):
        source = self.spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(self.files))
        frame = source.select(F.lit("mail").alias("entrypoint"), F.to_json(F.struct("n")).alias("payload"))
        options = {"url": queue.url, "checkpointLocation": str(self.checkpoint), **options}
        return frame.writeStream.format("bucketq").options(**options).trigger(availableNow=True).start()

    def run(self, queue, **options):
        self.start(queue, **options).awaitTermination()

    def forget(self, batch):
        """Be as if the driver had died after the sink's commit, before it was noted as done."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()


def test_a_micro_batch_that_is_repeated_adds_nothing(spark, queue, tmp_path):
    feed = Feed(spark, tmp_path, "feed")
    feed.add("a", range(100))
    feed.add("b", range(100, 25_000))
    feed.run(queue)
    feed.forget(1)
    feed.add("c", range(25_000, 25_100))
    feed.run(queue)
    assert sound(queue).live == 25_100
    assert sorted(numbers(queue)) == list(range(25_100))


def test_a_stream_with_a_name_that_lost_its_checkpoint_is_stopped(spark, queue, tmp_path):
    first, second = Feed(spark, tmp_path, "one"), Feed(spark, tmp_path, "two")
    first.add("a", range(100))
    first.run(queue, load_id="orders")
    second.add("a", range(100, 150))
    with pytest.raises(PySparkException, match="of another query: was its checkpoint lost"):
        second.run(queue, load_id="orders")
    assert sound(queue).live == 100


def test_within_foreach_batch_a_name_stands_for_the_stream(spark, queue, tmp_path):
    feed = Feed(spark, tmp_path, "feed")

    def enqueue(frame, number):
        jobs = frame.select(F.to_json(F.struct("n")).alias("payload"))
        write(jobs, queue, entrypoint="mail", load_id="feed")

    def run():
        source = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(feed.files))
        writer = source.writeStream.foreachBatch(enqueue).option("checkpointLocation", str(feed.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    for name in "ab":
        feed.add(name, range(10))
        run()
    feed.forget(1)
    feed.add("c", range(10))
    run()
    assert sound(queue).live == 30


def test_a_named_load_that_is_repeated_writes_nothing(spark, queue):
    for _ in range(2):
        write(rows(spark, 30_000), queue, load_id="orders")
        assert len(queue.objects("backlog")) == sound(queue).segments
    write(rows(spark, 10).where("false"), queue, load_id="none")
    write(rows(spark, 10), queue, load_id="none")
    assert sound(queue).live == 30_000


def test_two_streams_and_a_worker_share_a_queue(spark, queue, tmp_path):
    feeds = [Feed(spark, tmp_path, name) for name in ("one", "two")]
    for start, feed in zip((0, 100_000), feeds, strict=True):
        for file in range(4):
            feed.add(f"f{file}", range(start + file * 1500, start + (file + 1) * 1500))
    drained = []
    queries = [feed.start(queue) for feed in feeds]
    while any(query.isActive for query in queries):
        drained += numbers(queue)
    drained += numbers(queue)
    assert sorted(drained) == [*range(6000), *range(100_000, 106_000)]
    assert sound(queue).live == 0


def test_an_empty_frame_adds_nothing(spark, queue):
    write(rows(spark, 10).where("false"), queue)
    assert not queue.path.exists()
    write(spark.createDataFrame(pa.table({"payload": ["1"]})), queue, entrypoint="mail")
    assert sound(queue).live == 1
