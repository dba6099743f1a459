"""The offsets of the stream, and what the sink removes: cases that are hard to time within Spark."""

import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType

from bucketq.archived_job import FinishedStatus, encode_archived
from bucketq.codec import encode
from bucketq.job import Job
from bucketq.ledger import Ledger, SealedBatch, StagedPart, batch_content
from bucketq.object_name import staged_name
from bucketq.spark.options import Options
from bucketq.spark.schema import schema_of
from bucketq.spark.sink import Sink
from bucketq.spark.stream import ArchiveStream
from bucketq.spark.tables import ArchiveReader
from bucketq.state import QueueState
from tests.spark.test_loading import loaded, rows

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


def line(job_id):
    job = Job(id=job_id, entrypoint="mail", payload=b"[1]", attempts=1, created_at=NOON)
    return encode_archived(job, FinishedStatus.COMPLETED, NOON, NOON)


def name(version):
    return f"archive/2026-02-15T12/{version:012}.json"


class History:
    """A queue that is put together by hand: batches by version, of which some are still sealed."""

    def __init__(self, queue):
        self.queue = queue

    def write(self, version, archived, sealed=(), staged=()):
        for batch in archived:
            path = self.path_of(name(batch))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(batch_content((line(f"job-{batch}"),)))
        count = len(archived) + len(sealed) + len(staged)
        ledger = Ledger(
            sealed={
                **{name(batch): SealedBatch((line(f"job-{batch}"),)) for batch in sealed},
                **{name(batch): SealedBatch((), (self.stage(batch),)) for batch in staged},
            },
            archived={"2026-02-15": len(archived)} if archived else {},
        )
        totals = {"sequence": count, "enqueued_total": count, "completed_total": count}
        self.queue.path.write_bytes(encode(QueueState(version=version, ledger=ledger, **totals)))

    def stage(self, batch):
        content = batch_content((line(f"job-{batch}"),))
        job_id = f"job-{batch}"
        part = StagedPart(
            name=staged_name(batch, f"{batch:016x}"),
            hour="2026-02-15T12",
            count=1,
            size=len(content),
            ids=(job_id, job_id),
        )
        path = self.path_of(part.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return part

    def path_of(self, name):
        return self.queue.path.parent / "queue" / name

    def stream(self, **options):
        return ArchiveStream(Options({"url": self.queue.url, **options}), schema_of("archive"))


def read(stream, start, end):
    parts = stream.partitions({"version": start}, {"version": end})
    return sorted(row["id"] for part in parts for batch in stream.read(part) for row in batch.to_pylist())


def newest(stream, start):
    return stream.latestOffset({"version": start}, ReadAllAvailable())["version"]


def test_a_batch_that_is_on_its_way_holds_younger_ones_back(queue):
    history = History(queue)
    history.write(9, archived=[2, 7], sealed=[5])
    stream = history.stream()
    assert newest(stream, 0) == 2, "5 may not be there yet, so 7 has to wait for it"
    assert read(stream, 0, 2) == ["job-2"]
    assert newest(stream, 2) == 2
    history.write(10, archived=[2, 5, 7])
    assert newest(stream, 2) == 7
    assert read(stream, 2, 7) == ["job-5", "job-7"]
    assert read(stream, 0, 2) == ["job-2"], "what was read is the same for ever"


def test_what_comes_after_the_start_of_available_now_is_left_for_the_next_run(queue):
    history = History(queue)
    history.write(4, archived=[2, 3])
    stream = history.stream()
    stream.prepareForTriggerAvailableNow()
    history.write(6, archived=[2, 3, 5])
    assert stream.latestOffset({"version": 0}, ReadMaxFiles(1)) == {"version": 2}
    assert newest(stream, 2) == 3
    assert newest(stream, 3) == 3
    assert newest(history.stream(), 3) == 5
    assert newest(history.stream(ending_version="4"), 0) == 3


def test_latest_begins_behind_what_has_arrived(queue):
    history = History(queue)
    history.write(9, archived=[2], sealed=[5])
    assert history.stream(starting_version="latest").initialOffset() == {"version": 4}
    assert history.stream().initialOffset() == {"version": 0}
    assert history.stream(starting_version="3").initialOffset() == {"version": 3}


async def _tasks(queue):
    return await loaded(queue.storage, rows([f"{number}" for number in range(20_000)]))


@pytest.mark.parametrize("others", [[], [None]])
def test_segments_are_removed_only_if_the_commit_cannot_have_been_tried(queue, others):
    sink = Sink(Options({"url": queue.url, "entrypoint": "mail"}), StructType().add("payload", "string"))
    task = queue.ask(lambda q: _tasks(queue))
    assert len(queue.objects("backlog")) == 2
    sink.abort([task, *others])
    assert len(queue.objects("backlog")) == (0 if others else 2)


def test_a_batch_with_staged_parts_is_read_once_wherever_it_is(queue):
    history = History(queue)
    history.write(9, archived=[2, 7], staged=[5])
    assert newest(history.stream(), 0) == 2, "as long as it is on its way"
    reader = ArchiveReader(Options({"url": queue.url}), schema_of("archive"))

    def ids_of(parts):
        return sorted(row["id"] for part in parts for batch in reader.read(part) for row in batch.to_pylist())

    planned = pickle.loads(pickle.dumps(reader.partitions()))
    assert ids_of(planned) == ["job-2", "job-5", "job-7"]
    history.write(10, archived=[2, 5, 7])
    history.path_of(staged_name(5, f"{5:016x}")).unlink()
    assert ids_of(planned) == ["job-2", "job-5", "job-7"], "it has arrived between planning and reading"
    assert ids_of(reader.partitions()) == ["job-2", "job-5", "job-7"]
    assert newest(history.stream(), 0) == 7
