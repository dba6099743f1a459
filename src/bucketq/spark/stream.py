"""ArchiveStream: finished jobs as they arrive in the archive.

An offset is a version of the queue: everything was read that had been sealed up to then. A
batch is sealed by one commit, whatever hour its jobs finished in and wherever it is compacted
to later, so what lies between two versions is always the same.
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from bucketq.archive_name import ArchiveName, Piece, arrived, pieces
from bucketq.errors import ConfigurationError
from bucketq.ledger import Ledger
from bucketq.spark.options import Options
from bucketq.spark.schema import check_read
from bucketq.spark.tables import ArchivePart, archive_of, check_there, in_tasks, read_archived, read_queue
from bucketq.state import QueueState

Offset = dict[str, int]


class ArchiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the archive from version to version."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_for_source(is_stream=True)
        self._options = options
        self._selection = options.selection
        self._names = check_read(options.table, schema)
        self._limit = _limit(options)
        self._start = options.starting_version
        self._end = options.ending_version
        self._target: int | None = None
        self._days: dict[str, _Day] = {}

    def initialOffset(self) -> Offset:
        start = self._start
        return {"version": _arrived(self._state()) if start is None else start}

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limit

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = _arrived(self._state())

    def reportLatestOffset(self) -> Offset:
        return {"version": _arrived(self._state())}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        state = self._state()
        until = _arrived(state)
        if self._end is not None:
            until = min(until, self._end)
        if self._target is not None:
            until = min(until, self._target)
        if start["version"] > state.version:
            raise ConfigurationError(
                f"this stream is at version {start['version']} of {self._options.url}, but the queue is only"
                f" at {state.version}: it was put back, or is another one. Begin with a new checkpoint."
            )
        new = self._pieces(state.ledger, start["version"], until)
        return {"version": _within(new, limit)} if new else start

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        new = self._pieces(self._state().ledger, start["version"], end["version"])
        return [ArchivePart(group) for group in in_tasks(new)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ArchivePart)
        return read_archived(self._options, partition, self._names, self._selection)

    def _state(self) -> QueueState:
        state = read_queue(self._options)
        check_there(state, self._options)
        return state

    def _pieces(self, ledger: Ledger, after: int, until: int) -> list[Piece]:
        asyncio.run(self._look(ledger))
        sizes = {name: size for day in self._days.values() for name, size in day.sizes.items()}
        recent = {
            name: size
            for name, size in sizes.items()
            if name.last > after and self._selection.overlaps(name.hour, name.hour)
        }
        return pieces(recent, after + 1, until)

    async def _look(self, ledger: Ledger) -> None:
        """List the days to which batches were added since the last look."""
        archive = archive_of(self._options)
        # Days that are not kept any more are forgotten, and so is what was in them.
        self._days = {day: known for day, known in self._days.items() if day in ledger.archived}
        for day, count in ledger.archived.items():
            is_known = day in self._days and self._days[day].jobs == count
            if not is_known and self._selection.overlaps(f"{day}T00", f"{day}T23"):
                self._days[day] = _Day(count, await archive.objects_of(day))


class _Day(NamedTuple):
    """The jobs that a day of the archive has by queue.json's count, and its objects at that time."""

    jobs: int
    sizes: dict[ArchiveName, int]


def _arrived(state: QueueState) -> int:
    return arrived(state.ledger.sealed, state.version)


def _limit(options: Options) -> ReadLimit:
    objects, size = options.limit("max_objects_per_trigger"), options.limit("max_bytes_per_trigger")
    if objects and size:
        raise ConfigurationError("give max_objects_per_trigger or max_bytes_per_trigger, not both")
    if objects:
        return ReadMaxFiles(objects)
    return ReadMaxBytes(size) if size else ReadAllAvailable()


def _within(new: list[Piece], limit: ReadLimit) -> int:
    """The version up to which to read, so that a limit is kept; at least one piece is read."""
    new = sorted(new, key=lambda piece: piece.last)
    if isinstance(limit, ReadMaxFiles):
        return new[: limit.max_files][-1].last
    until, size = new[0].last, 0
    for piece in new:
        size += piece.size
        if isinstance(limit, ReadMaxBytes) and size > limit.max_bytes:
            break
        until = piece.last
    return until
