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

from bucketq.errors import ConfigurationError
from bucketq.loads import LoadMark
from bucketq.spark.loading import Defaults, Loaded, TaskLoad, discard, land
from bucketq.spark.options import Options
from bucketq.spark.schema import check_written
from bucketq.spark.tables import read_queue

log = logging.getLogger("bucketq")

Messages = Sequence[WriterCommitMessage | None]


class Sink(DataSourceArrowWriter):
    """Enqueues the rows of a DataFrame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)
        # The same for all tasks: as long as one of them writes, nothing of the others is collected.
        self._version = read_queue(options).version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _loaded(self._options, self._version, self._defaults, iterator)

    def commit(self, messages: Messages) -> None:
        number = self._options.load_number
        mark = LoadMark(number or 0)
        for loaded in _loads(messages):
            # In `foreachBatch` the micro-batch is the number, unless another one is given.
            if number is None and loaded.batch is not None:
                mark = LoadMark(loaded.batch, loaded.query or "")
        _land(self._options, messages, self._options.load_id, mark)

    def abort(self, messages: Messages) -> None:
        _abort(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Enqueues the rows of each micro-batch, once, also if it is repeated."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        # Of its own: the driver's may be days old, and then what is written could be collected at once.
        return _loaded(self._options, read_queue(self._options).version, self._defaults, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 (Spark's name)
        queries = {loaded.query for loaded in _loads(messages)}
        for query in queries:
            if query is None or len(queries) > 1:
                raise ConfigurationError("Spark does not say of which query this micro-batch is")
            _land(self._options, messages, self._options.load_id or query, LoadMark(batchId, query))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        _abort(self._options, messages)


def _loaded(options: Options, version: int, defaults: Defaults, batches: Iterator[pa.RecordBatch]) -> Loaded:
    context = TaskContext.get()
    assert context is not None, "a task of Spark's writes"

    async def load() -> Loaded:
        task = TaskLoad(options.open(), version, defaults)
        for rows in batches:
            await task.add(rows)
        return await task.finish()

    loaded = asyncio.run(load())
    loaded.query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    loaded.batch = None if batch is None else int(batch)
    return loaded


def _land(options: Options, messages: Messages, name: str | None, mark: LoadMark) -> None:
    if not asyncio.run(land(options.open(), _loads(messages), name, mark)):
        log.warning("load %s, number %d, was enqueued before: nothing was added", name, mark.number)


def _abort(options: Options, messages: Messages) -> None:
    # With a message from every task the commit may have been tried, and may have landed or may
    # yet: then it is left to the collector to tell.
    if None in messages:
        asyncio.run(discard(options.open(), _loads(messages)))


def _loads(messages: Messages) -> list[Loaded]:
    return [message for message in messages if isinstance(message, Loaded)]
