"""Sink and StreamSink: rows become jobs, all of a write or none of it, and none twice."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bucketq.spark.loading import Defaults, Loaded, TaskLoad, discard, land
from bucketq.spark.options import Options
from bucketq.spark.schema import check_written
from bucketq.spark.tables import archive_of

log = logging.getLogger("bucketq")


class Sink(DataSourceArrowWriter):
    """Enqueues the rows of a DataFrame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)
        self._load = (options.load_id, options.number("load_number", 0)) if options.load_id else None
        # The same for all tasks: as long as one of them writes, nothing of the others is collected.
        self._version = asyncio.run(archive_of(options).state()).version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return asyncio.run(_loaded(self._options, self._version, self._defaults, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _land(self._options, messages, self._load)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Enqueues the rows of each micro-batch, once, however often it is replayed."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        version = asyncio.run(archive_of(self._options).state()).version
        loaded = asyncio.run(_loaded(self._options, version, self._defaults, iterator))
        context = TaskContext.get()
        assert context is not None, "a task of Spark's writes"
        loaded.query = context.getLocalProperty("sql.streaming.queryId")
        return loaded

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = {message.query for message in _loads(messages)}
        name = self._options.load_id or next(iter(queries - {None}), None)
        _land(self._options, messages, (name, batchId) if name else None)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _abort(self._options, messages)


async def _loaded(
    options: Options, version: int, defaults: Defaults, batches: Iterator[pa.RecordBatch]
) -> Loaded:
    load = TaskLoad(options.open(), version, defaults)
    for rows in batches:
        await load.add(rows)
    return await load.finish()


def _land(
    options: Options, messages: Sequence[WriterCommitMessage | None], load: tuple[str, int] | None
) -> None:
    if not asyncio.run(land(options.open(), _loads(messages), load)):
        log.warning("load %s, number %d, was enqueued before: nothing was added", *(load or ("?", 0)))


def _abort(options: Options, messages: Sequence[WriterCommitMessage | None]) -> None:
    # With a message from every task the commit may have been tried, and may have landed or may
    # yet: then it is left to the collector to tell.
    if None in messages:
        asyncio.run(discard(options.open(), _loads(messages)))


def _loads(messages: Sequence[WriterCommitMessage | None]) -> list[Loaded]:
    return [message for message in messages if isinstance(message, Loaded)]
