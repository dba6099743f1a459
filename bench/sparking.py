"""Sparking: the source and the sink beside Spark's own JSON reader and writer.

Both take turns in one session, after a turn that is not counted, and the medians of the turns'
ratios count. The archive is that of one day; the rows that are written are made by Spark.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.finding import Finding
from bucketq import DirectQueue, LocalFileSystemStorage
from bucketq.archived_job import FinishedStatus, encode_archived
from bucketq.codec import decode, encode
from bucketq.job import Job
from bucketq.ledger import Ledger, batch_content
from bucketq.operation import EnqueueSegments
from bucketq.settings import Settings
from bucketq.spark import local_session
from bucketq.spark.options import Options
from bucketq.spark.source import BucketQSource
from bucketq.spark.tables import ArchivePart, ArchiveReader
from bucketq.state import QueueState

DAY = datetime(2026, 2, 15, tzinfo=UTC)
STREAMS = 2


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    archived: int = 480_000
    written: int = 1_000_000
    streamed: int = 100_000
    # Of each stream, and so its micro-batches.
    files: int = 10
    turns: int = 5

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(archived=4_800, written=20_000, streamed=2_000, files=2, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure source and sink."""
    spark = local_session("local[2]")
    try:
        return [
            *_source(spark, folder, amount),
            *_sink(spark, folder, amount),
            *_streams(spark, folder, amount),
        ]
    finally:
        spark.stop()


def _source(spark: SparkSession, folder: Path, amount: Amount) -> list[Finding]:
    url = write_archive(folder / "day", amount.archived)

    def ours() -> None:
        _consume(spark.read.format("bucketq").option("url", url).load())

    def sparks() -> None:
        _consume(spark.read.option("multiLine", True).json(f"{folder}/day/queue/archive/*"))

    rates = _rates(sparks, ours, amount.archived, amount.turns)
    hour = {"since": "2026-02-15T10", "until": "2026-02-15T11"}
    whole, part = _bytes_read({"url": url}), _bytes_read({"url": url, **hour})
    return [
        Finding("archive, rows read a second, Spark's multiLine JSON and our source", *rates, least=1.2),
        Finding("bytes read of a day, all of it and by one-hour options", whole, part, most=0.1),
    ]


def _sink(spark: SparkSession, folder: Path, amount: Amount) -> list[Finding]:
    payload = F.to_json(F.struct(F.col("id").alias("number"), F.lit("alice@example.com").alias("to")))
    rows = spark.range(amount.written).select(F.lit("mail").alias("entrypoint"), payload.alias("payload"))
    turn = iter(range(1000))

    def ours() -> None:
        url = f"file://{folder}/sink-{next(turn)}/queue.json"
        rows.write.format("bucketq").option("url", url).mode("append").save()

    def sparks() -> None:
        rows.write.json(f"{folder}/json-{next(turn)}")

    rates = _rates(sparks, ours, amount.written, amount.turns)
    last = max(folder.glob("sink-*"), key=lambda path: int(path.name.partition("-")[2]))
    commits = asyncio.run(_commits(last / "queue.json", folder, amount.turns * 5))
    return [
        Finding("rows written a second, Spark's JSON writer and our sink", *rates, least=0.5),
        Finding("seconds of a commit, of one job and of all those rows", *commits, most=2),
    ]


def _streams(spark: SparkSession, folder: Path, amount: Amount) -> list[Finding]:
    url = f"file://{folder}/streams/queue.json"
    queries = []
    for number in range(STREAMS):
        files = f"{folder}/files-{number}"
        numbers = spark.range(number * amount.streamed, (number + 1) * amount.streamed, 1, amount.files)
        numbers.write.json(files)
        rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(files)
        rows = rows.selectExpr("'mail' AS entrypoint", "string(id) AS payload")
        writer = rows.writeStream.format("bucketq").option("url", url)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{number}")
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    jobs = spark.read.format("bucketq").options(url=url, table="jobs").load()
    found = jobs.agg(F.count("*"), F.countDistinct("payload_json")).first()
    assert found is not None
    assert found[0] == found[1], "a row was enqueued twice"
    written = STREAMS * amount.streamed
    return [
        Finding("rows of two streams at once, and the different jobs they made", written, found[1], least=1)
    ]


def _rates(
    sparks: Callable[[], None], ours: Callable[[], None], rows: int, turns: int
) -> tuple[float, float]:
    """Spark's rows a second, and that times the median of the turns' ratios."""
    took: list[tuple[float, float]] = []
    for turn in range(turns + 1):
        both = _timed(sparks), _timed(ours)
        if turn:
            took.append(both)
    rate = rows / median(first for first, _ in took)
    return rate, rate * median(first / second for first, second in took)


def _timed(what: Callable[[], None]) -> float:
    started_s = time.perf_counter()
    what()
    return time.perf_counter() - started_s


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def write_archive(folder: Path, jobs: int) -> str:
    """A queue whose jobs have all finished, evenly over a day."""
    version, done = 0, 0
    for hour in range(24):
        lines = [_line(number, jobs) for number in range(done, done + jobs // 24)]
        done += len(lines)
        for start in range(0, len(lines), Settings().archive_jobs_max):
            version += 1
            path = folder / "queue" / "archive" / f"{DAY:%Y-%m-%d}T{hour:02}" / f"{version:012}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(batch_content(tuple(lines[start : start + Settings().archive_jobs_max])))
    state = QueueState(
        version=version + 1,
        sequence=done,
        enqueued_total=done,
        completed_total=done,
        ledger=Ledger(archived={f"{DAY:%Y-%m-%d}": done}),
    )
    (folder / "queue.json").write_bytes(encode(state))
    return f"file://{folder}/queue.json"


def _line(number: int, jobs: int) -> bytes:
    finished_at = DAY + timedelta(days=number / jobs)
    job = Job(
        id=f"019b76da-a800-7a06-9c99-{number:012x}",
        entrypoint=("mail", "resize", "report")[number % 3],
        payload=b'{"number":%d,"to":"alice@example.com","subject":"hello there"}' % number,
        created_at=finished_at - timedelta(seconds=3),
        attempts=1,
        worker="web-3:4711",
    )
    result = b'{"sent":true}' if number % 5 == 0 else b""
    claimed_at = finished_at - timedelta(seconds=1)
    return encode_archived(job, FinishedStatus.COMPLETED, claimed_at, finished_at, None, result)


def _bytes_read(given: dict[str, str]) -> int:
    """What the tasks read, done here by one after the other, to be counted."""
    options = _CountingOptions(given)
    reader = ArchiveReader(options, BucketQSource(given).schema())
    for part in reader.partitions():
        assert isinstance(part, ArchivePart)
        for _ in reader.read(part):
            pass
    return options.count


class _CountingOptions(Options):
    """Opens a storage whose objects count the bytes that are read of them."""

    count = 0

    def open(self) -> Any:
        storage = LocalFileSystemStorage(self.url.removeprefix("file://"))
        read = storage.objects.read

        async def counted(name: str) -> bytes:
            content = await read(name)
            self.count += len(content)
            return content

        storage.objects.read = counted  # type: ignore[method-assign]
        return storage


async def _commits(loaded: Path, folder: Path, turns: int) -> tuple[float, float]:
    """Seconds of a commit that adds one job, and of one that adds all segments of a loaded queue."""
    content, _ = await LocalFileSystemStorage(loaded).read()
    segments = tuple(decode(content).backlog)
    one, all_of_them = list[float](), list[float]()
    for turn in range(turns):
        for took, what in ((one, None), (all_of_them, EnqueueSegments(segments))):
            storage = LocalFileSystemStorage(folder / f"commit-{turn}-{what is None}.json")
            q = DirectQueue(storage)
            await q.enqueue("mail", 1)
            started_s = time.perf_counter()
            await (q.enqueue("mail", 2) if what is None else q.apply(what))
            took.append(time.perf_counter() - started_s)
    return median(one), median(all_of_them)
