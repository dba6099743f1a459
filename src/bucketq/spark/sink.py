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
from bucketq.spark.options import SINK, STREAM_SINK, Options
from bucketq.spark.schema import check_written
from bucketq.spark.tables import read_queue

log = logging.getLogger("bucketq")

Messages = Sequence[WriterCommitMessage | None]


class Sink(DataSourceArrowWriter):
    """Enqueues the rows of a DataFrame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_for("a write", SINK)
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)
        state = read_queue(options)
        # The same for all tasks: as long as one of them writes, nothing of the others is collected.
        self._version = state.version
        self._landed = state.loads.marks.get(options.load_id or "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        number = self._options.load_number
        # In `foreachBatch` the micro-batch is the number, unless another one is given.
        mark = (_micro_batch() if number is None else None) or LoadMark(number or 0)
        rows = iter(()) if mark == self._landed else iterator
        return _loaded(self._options, self._version, self._defaults, mark, rows)

    def commit(self, messages: Messages) -> None:
        marks = {loaded.mark for loaded in _loads(messages)}
        mark = marks.pop() if marks else LoadMark(self._options.load_number or 0)
        _land(self._options, messages, self._options.load_id, mark)

    def abort(self, messages: Messages) -> None:
        _abort(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Enqueues the rows of each micro-batch, once, also if it is repeated."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_for("a stream's sink", STREAM_SINK)
        self._options = options
        self._defaults = Defaults(*options.new_job)
        check_written(schema, has_entrypoint=self._defaults.entrypoint is not None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        mark = _micro_batch()
        if mark is None:
            raise ConfigurationError("Spark does not say of which query this micro-batch is")
        # Of its own: the driver's may be days old, and then what is written could be collected at once.
        state = read_queue(self._options)
        landed = state.loads.marks.get(self._options.load_id or mark.query)
        rows = iter(()) if mark == landed else iterator
        return _loaded(self._options, state.version, self._defaults, mark, rows)

    def commit(self, messages: Messages, batchId: int) -> None:
        marks = {loaded.mark for loaded in _loads(messages)}
        if len(marks) > 1:
            raise ConfigurationError(f"these are of several micro-batches: {marks}. Nothing was enqueued.")
        for mark in marks:
            _land(self._options, messages, self._options.load_id or mark.query, mark)

    def abort(self, messages: Messages, batchId: int) -> None:
        _abort(self._options, messages)


def _micro_batch() -> LoadMark | None:
    """The micro-batch that this task works for, if it does for one."""
    context = TaskContext.get()
    assert context is not None, "a task of Spark's writes"
    number = context.getLocalProperty("streaming.sql.batchId")
    query = context.getLocalProperty("sql.streaming.queryId")
    return LoadMark(int(number), query) if number and query else None


def _loaded(
    options: Options, version: int, defaults: Defaults, mark: LoadMark, batches: Iterator[pa.RecordBatch]
) -> Loaded:
    async def load() -> Loaded:
        task = TaskLoad(options.open(), version, defaults, mark)
        for rows in batches:
            await task.add(rows)
        return await task.finish()

    return asyncio.run(load())


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
