"""The tables `archive` and `jobs`: planned on the driver, read by the executors.

Both show the queue as of one version. The driver notes what queue.json itself holds, and deals
out the objects beside it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bucketq.archive import Archive, in_sync
from bucketq.archive_lines import ArchiveLines, Damage
from bucketq.archive_name import Piece
from bucketq.archive_selection import Selection
from bucketq.archived_job import decode_archived
from bucketq.errors import ConfigurationError, CorruptStateError, ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.jobline import decode_job, encode_job
from bucketq.ledger import SealedBatch
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import SideObjects
from bucketq.spark.archived_columns import UnreadableLinesError, archived
from bucketq.spark.line_columns import as_they_are
from bucketq.spark.live_columns import live
from bucketq.spark.options import Options
from bucketq.spark.schema import check_read
from bucketq.state import QueueState

P = TypeVar("P", Piece, Segment)

# A task should be worth starting, but there should be some for every core.
_TASK_BYTES_MAX = 16 * 1024 * 1024
_TASK_BYTES_MIN = 1024 * 1024
_TASKS = 32
# Lines that become one batch of rows.
_LINES_AT_ONCE = 10_000
# Objects that are read ahead while others become rows.
_READS_AHEAD = 4


@dataclass
class ArchivePart(InputPartition):
    """Pieces of the archive, lines that were still in queue.json, and batches that were on their way."""

    pieces: Sequence[Piece]
    lines: Sequence[ArchiveLines] = ()
    sealed: Sequence[tuple[str, SealedBatch]] = ()


@dataclass
class LivePart(InputPartition):
    """The lines of jobs in queue.json, and segments beside it."""

    lines: Sequence[bytes]
    segments: Sequence[Segment]


class ArchiveReader(DataSourceReader):
    """Reads finished jobs, each of them once."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_for_source()
        self._options = options
        self._selection = options.selection
        self._names = check_read(options.table, schema)

    def partitions(self) -> list[InputPartition]:
        pieces, state = asyncio.run(archive_of(self._options).plan(self._selection))
        check_there(state, self._options)
        parts: list[InputPartition] = [ArchivePart(group) for group in in_tasks(pieces)]
        # A batch with staged parts is worth a task.
        sealed = state.ledger.sealed.items()
        parts += [ArchivePart((), (), [(name, batch)]) for name, batch in sealed if batch.parts]
        on_the_way = [ArchiveLines.of(name, batch.lines) for name, batch in sealed if not batch.parts]
        on_the_way.append(ArchiveLines.of_finished(state.ledger.finished))
        return [*parts, ArchivePart((), on_the_way)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ArchivePart)
        return read_archived(self._options, partition, self._names, self._selection)


class JobsReader(DataSourceReader):
    """Reads the jobs that are in the queue."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_for_source()
        self._options = options
        self._names = check_read("jobs", schema)
        if options.status is not None and options.status not in list(JobStatus):
            raise ConfigurationError(f"a job in the queue is {', '.join(JobStatus)}, not {options.status!r}")

    def partitions(self) -> list[InputPartition]:
        state = read_queue(self._options)
        check_there(state, self._options)
        in_file = LivePart([encode_job(job) for job in state.jobs if self._is_wanted(job)], ())
        segments = (one for one in state.backlog if self._may_hold(one))
        return [in_file, *(LivePart((), group) for group in in_tasks(segments))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LivePart)
        jobs = [decode_job(line, "queue.json") for line in partition.lines]
        for segment in partition.segments:
            jobs += [job for job in asyncio.run(self._jobs_of(segment)) if self._is_wanted(job)]
        if jobs:
            yield live(jobs, self._names)

    async def _jobs_of(self, segment: Segment) -> list[Job]:
        try:
            content = await SideObjects(self._options.open().objects).read(segment.name)
        except ObjectNotFoundError:
            raise CorruptStateError(
                f"{segment.name}, with {segment.count} waiting jobs, is not there any more. Most likely they"
                " were dequeued, or sorted into another segment, since this query was planned: load the table"
                " again. If that does not help, the object is lost: see `bucketq verify`."
            ) from None
        return list(SegmentLines(segment, content).jobs(segment))

    def _is_wanted(self, job: Job) -> bool:
        options = self._options
        return options.entrypoint in (None, job.entrypoint) and options.status in (None, job.status.value)

    def _may_hold(self, segment: Segment) -> bool:
        options = self._options
        return options.entrypoint in (None, segment.entrypoint) and options.status in (None, segment.status)


def archive_of(options: Options) -> Archive:
    """The queue's archive; what is damaged in it is an error."""

    def refuse(damage: Damage) -> None:
        raise CorruptStateError(f"{options.url}: {damage}")

    return Archive(options.open(), refuse)


def read_queue(options: Options) -> QueueState:
    """The queue as queue.json has it now."""
    return asyncio.run(archive_of(options).state())


def check_there(state: QueueState, options: Options) -> None:
    """Raise ConfigurationError if there is no queue."""
    if not state.version:
        raise ConfigurationError(f"there is no queue at {options.url}")


def in_tasks(pieces: Iterable[P]) -> Iterator[list[P]]:
    """Pieces of the archive, or segments, small ones together, for each task."""
    pieces = list(pieces)
    total = sum(piece.size for piece in pieces)
    limit = min(max(total // _TASKS, _TASK_BYTES_MIN), _TASK_BYTES_MAX)
    task: list[P] = []
    size = 0
    for piece in pieces:
        if task and size + piece.size > limit:
            yield task
            task, size = [], 0
        task.append(piece)
        size += piece.size
    if task:
        yield task


def read_archived(
    options: Options, part: ArchivePart, names: Sequence[str], selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The rows of a part, of the table `archive` or `lines`."""
    if options.table == "lines":
        yield from _read_as_it_is(options, part, names)
        return
    gathered: list[ArchiveLines] = []
    for lines in chain(part.lines, in_sync(_read(archive_of(options), part))):
        gathered.append(lines)
        if sum(len(one.lines) for one in gathered) >= _LINES_AT_ONCE:
            yield _rows(options, gathered, names, selection)
            gathered = []
    if any(one.lines for one in gathered):
        yield _rows(options, gathered, names, selection)


def _read_as_it_is(options: Options, part: ArchivePart, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    damages: list[Damage] = []
    archive = Archive(options.open(), damages.append)
    for lines in chain(part.lines, in_sync(_read(archive, part))):
        # Of objects that are being read ahead, too; all come in the end.
        found, damages[:] = list(damages), []
        if lines.lines or found:
            yield as_they_are(lines, found, names)


async def _read(archive: Archive, part: ArchivePart) -> AsyncIterator[ArchiveLines]:
    to_begin = deque(partial(archive.lines, piece) for piece in part.pieces)
    to_begin += [partial(archive.sealed_lines, name, batch) for name, batch in part.sealed]
    begun = deque[asyncio.Task[ArchiveLines]]()
    try:
        while to_begin or begun:
            while to_begin and len(begun) < _READS_AHEAD:
                begun.append(asyncio.create_task(to_begin.popleft()()))
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


def _rows(
    options: Options, gathered: Sequence[ArchiveLines], names: Sequence[str], selection: Selection
) -> pa.RecordBatch:
    try:
        return archived([line for one in gathered for line in one.lines], names, selection)
    except UnreadableLinesError as unreadable:
        for one in gathered:
            for number, line in one.numbered():
                try:
                    decode_archived(line)
                except CorruptStateError as error:
                    raise CorruptStateError(f"{options.url}: {one.name}, line {number}: {error}") from None
        where = ", ".join(one.name for one in gathered)
        raise CorruptStateError(f"{options.url}: {where}: {unreadable}") from unreadable
