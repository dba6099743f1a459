"""`spark.readStream.format("bucketq")`: every finished job once, through restarts and compaction."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException

from bucketq.archive_upkeep import compact
from bucketq.side_objects import SideObjects

NOON = datetime(2026, 2, 15, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark tables")]


class Stream:
    """A query that puts what it reads into Parquet files, which Spark writes exactly once."""

    def __init__(self, spark, queue, folder):
        self.spark, self.queue = spark, queue
        self.checkpoint, self.out = str(folder / "checkpoint"), str(folder / "out")

    def run(self, **options):
        """Read all that is available now; tell how many rows each micro-batch had."""
        frame = self.spark.readStream.format("bucketq").options(url=self.queue.url, **options).load()
        query = (
            frame.select("id")
            .writeStream.format("parquet")
            .option("checkpointLocation", self.checkpoint)
            .option("path", self.out)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def ids(self):
        return sorted(row.id for row in self.spark.read.parquet(self.out).select("id").collect())


@pytest.fixture
def stream(spark, queue, tmp_path):
    return Stream(spark, queue, tmp_path)


def compact_all(queue):
    """Compact past hours, and again an hour later, when what was compacted is removed."""

    async def tidy(q):
        objects = SideObjects(queue.storage.objects)
        for hours in (2, 4):
            await compact(objects, q.apply, datetime.now(UTC) + hours * HOUR)

    queue.ask(tidy)


def test_each_run_reads_what_came_since_the_last_one(stream, queue):
    ids = queue.finish("mail", range(900), batch=300)
    assert sum(stream.run()) == 900
    assert stream.ids() == sorted(ids)
    assert stream.run() == []
    ids += queue.finish("mail", range(300), batch=300)
    assert stream.run() == [300]
    assert stream.ids() == sorted(ids)


def test_what_is_not_sealed_yet_is_read_later(stream, queue):
    ids = queue.finish("mail", range(300), batch=300)
    more = queue.finish("mail", range(10), batch=300)
    stream.run()
    assert stream.ids() == sorted(ids), "ten are still in queue.json"
    ids += more + queue.finish("mail", range(290), batch=300)
    stream.run()
    assert stream.ids() == sorted(ids)


def test_limits_make_several_micro_batches_of_what_is_available(stream, queue):
    ids = queue.finish("mail", range(1000), batch=100)
    assert stream.run(max_objects_per_trigger=4) == [400, 400, 200]
    ids += queue.finish("mail", range(400), batch=100)
    size = max((queue.path.parent / "queue" / name).stat().st_size for name in queue.objects("archive"))
    assert stream.run(max_bytes_per_trigger=2 * size) == [200, 200]
    assert stream.run(max_bytes_per_trigger=1) == []
    ids += queue.finish("mail", range(200), batch=100)
    assert stream.run(max_bytes_per_trigger=1) == [100, 100], "at least one object"
    assert stream.ids() == sorted(ids)


def test_compaction_and_late_hours_make_neither_a_gap_nor_a_repeat(stream, queue):
    ids = queue.finish("mail", range(300), batch=100, at=NOON)
    assert stream.run(max_objects_per_trigger=2) == [200, 100]
    # Later batches of the same hour, all compacted into one with what was read before.
    ids += queue.finish("mail", range(300), batch=100, at=NOON + timedelta(minutes=10))
    compact_all(queue)
    [compacted] = queue.objects("archive")
    assert "-" in compacted.rpartition("/")[2]
    assert stream.run() == [300]
    # A batch whose jobs finished, by their workers' clocks, long before what was read last.
    ids += queue.finish("mail", range(100), batch=100, at=NOON - 5 * HOUR)
    ids += queue.finish("mail", range(100), batch=100, at=NOON)
    assert stream.run() == [200]
    assert stream.ids() == sorted(ids)
    compact_all(queue)
    assert stream.run() == []
    assert sorted(
        row.id for row in stream.spark.read.format("bucketq").option("url", queue.url).load().collect()
    ) == sorted(ids)


def test_a_micro_batch_that_is_repeated_after_compaction_is_the_same(spark, queue, tmp_path):
    batches = {}

    def note(frame, number):
        batches.setdefault(number, []).append(sorted(row.id for row in frame.select("id").collect()))

    def run():
        frame = spark.readStream.format("bucketq").options(url=queue.url, max_objects_per_trigger=1).load()
        query = frame.writeStream.foreachBatch(note).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query.trigger(availableNow=True).start().awaitTermination()

    ids = queue.finish("mail", range(200), batch=100, at=NOON)
    run()
    # As if the driver had died before it noted the last micro-batch as done.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    ids += queue.finish("mail", range(200), batch=100, at=NOON)
    compact_all(queue)
    assert len(queue.objects("archive")) == 1
    run()
    [first], [second, again], [third] = batches[0], batches[1], batches[2]
    assert second == again
    assert [len(first), len(second), len(third)] == [100, 100, 200]
    assert sorted(first + second + third) == sorted(ids)


def test_a_stream_can_begin_now_and_read_some_jobs_only(stream, queue):
    queue.finish("mail", range(100), batch=100)
    stream.run(starting_version="latest", entrypoint="mail")
    ids = queue.finish("mail", range(100), batch=100)
    queue.finish("report", range(100), batch=100)
    stream.run(starting_version="latest", entrypoint="mail")
    assert stream.ids() == sorted(ids)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table": "jobs"}, "the table jobs cannot be read as a stream"),
        ({"max_objects_per_trigger": 0}, "a whole number from 1, not 0"),
        ({"max_objects_per_trigger": "few"}, "is a whole number from 0, not 'few'"),
        ({"max_objects_per_trigger": 1, "max_bytes_per_trigger": 1}, "not both"),
        (
            {"starting_version": "now"},
            "starting_version is a whole number from 0, or earliest, or latest, not 'now'",
        ),
    ],
)
def test_streams_that_make_no_sense_are_refused(stream, queue, options, reason):
    queue.finish("mail", range(1))
    with pytest.raises(PySparkException, match=reason):
        stream.run(**options)


def test_a_queue_that_was_put_back_is_noticed(stream, queue):
    queue.finish("mail", range(100), batch=100)
    before = queue.path.read_bytes()
    queue.finish("mail", range(100), batch=100)
    stream.run()
    queue.path.write_bytes(before)
    with pytest.raises(PySparkException, match="it was put back, or is another one"):
        stream.run()
