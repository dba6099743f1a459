"""Loading rows into a queue: each task writes segments, the driver has them enqueued together.

    rows ──▶ lines ──▶ piles ──▶ segments     a task, with its rows numbered from 1
                            └──▶ lines        the few that are not worth an object
    tasks ──▶ one commit                      the driver: the tasks' rows one after the other

Until that commit nothing has been enqueued. What a task wrote in vain is collected.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby, repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from bucketq.clock import SystemClock
from bucketq.embedded import DirectQueue
from bucketq.errors import ConfigurationError, PayloadError, StorageError
from bucketq.job import Job
from bucketq.jobline import decode_job, line_bytes, payload_field
from bucketq.loads import LoadMark
from bucketq.mint import Mint
from bucketq.new_job import new_job
from bucketq.operation import Enqueue, EnqueueSegments, Load
from bucketq.segment import Segment, due_key, key_of
from bucketq.segment_lines import SegmentWriter
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects, each
from bucketq.spark.pile import ROWS_MAX, Pile, due_fields, lines_of, payload_fields
from bucketq.storage import Bucket

_SETTINGS = Settings()
# What a task may leave to the driver, rather than write small objects for it: there may be thousands.
_LEFT_OVER_BYTES_MAX = 32 * 1024
# The lines that a task holds at most, over all entrypoints and priorities.
_PILED_BYTES_MAX = 64 * 1024 * 1024
# Segments that are on their way while more lines are made.
_WRITES_AT_ONCE = 4
# queue.json names every segment, and is written with every commit.
_SEGMENTS_MAX = 5000
# How a line names its payload's object. A payload that is JSON may hold the same, and then its segment
# only seems to have one more.
_PAYLOAD_OBJECT = b',"payload_object":'

FIRST = LoadMark(0)


class Loaded(WriterCommitMessage):
    """What a task has loaded: segments, and the lines that are left over."""

    def __init__(
        self, version: int, mark: LoadMark, count: int, segments: list[Segment], lines: list[bytes]
    ) -> None:
        # That of the queue before the task wrote anything.
        self.version = version
        # Which part of a load it belongs to.
        self.mark = mark
        self.count = count
        self.segments = segments
        self.lines = lines


class Defaults(NamedTuple):
    """What holds for a row that does not say."""

    entrypoint: str | None
    priority: int
    max_attempts: int


# Entrypoint, priority, attempts, and whether it is for later.
Kind = tuple[str | None, int, int, bool]


class TaskLoad:
    """One task's part of a load. `version` is one of the queue from before it began."""

    def __init__(self, storage: Bucket, version: int, defaults: Defaults, mark: LoadMark = FIRST) -> None:
        self._objects = SideObjects(storage.objects)
        self._version = version
        self._defaults = defaults
        self._mark = mark
        self._clock = SystemClock()
        self._mint = Mint()
        self._piles: dict[tuple[str, int | None], Pile] = {}
        self._writing: deque[asyncio.Task[Segment]] = deque()
        self._segments: list[Segment] = []
        self._count = 0
        # The lowest and the highest beginning of its ids; none is above "g" or below "".
        self._ids = "g", ""
        self._has_large = False
        self._may_crash_once = False

    async def add(self, batch: pa.RecordBatch) -> None:
        """Take in some rows."""
        batch = batch.rename_columns([name.lower() for name in batch.schema.names])
        for start in range(0, batch.num_rows, ROWS_MAX):
            await self._add(batch[start : start + ROWS_MAX])

    async def _add(self, rows: pa.RecordBatch) -> None:
        now = self._clock.now()
        id_beginning = self._mint.id_beginning(now)
        self._ids = min(self._ids[0], id_beginning), max(self._ids[1], id_beginning)
        fields = await self._payload_fields(rows)
        dues = _dues(rows, now)
        if "run_at" in rows.schema.names:
            fields = pc.binary_join_element_wise(due_fields(dues), fields, b"")
        places = pa.arange(self._count + 1, self._count + 1 + rows.num_rows)
        for kind, chosen in self._kinds(rows, dues).items():
            entrypoint, priority, max_attempts, is_later = kind
            if entrypoint is None:
                raise ConfigurationError(
                    'a row has no entrypoint; give one for all such rows: .option("entrypoint", "resize")'
                )
            model = new_job("", entrypoint, b"", priority, now, {"max_attempts": max_attempts})
            self._may_crash_once |= model.max_crashes == 1
            places_of_kind = places.take(chosen)
            lines = lines_of(model, id_beginning, chosen, places_of_kind, fields.take(chosen))
            line = entrypoint, None if is_later else priority
            pile = self._piles.setdefault(line, Pile(*line))
            pile.add(lines, places_of_kind, dues.take(chosen))
        self._count += rows.num_rows
        await self._write_full_piles()

    async def finish(self) -> Loaded:
        """Write what is left, but for a little."""
        piles = sorted(
            (pile for pile in self._piles.values() if len(pile)),
            key=lambda pile: (*pile.line, pile.priority),
        )
        by_line = [list(group) for _, group in groupby(piles, key=lambda pile: pile.line)]
        left_over: list[bytes] = []
        size = 0
        for group in sorted(by_line, key=_size):
            size += _size(group)
            if size <= _LEFT_OVER_BYTES_MAX:
                left_over += [line for pile in group for line in pile.lines.to_pylist()]
            else:
                await self._write(group)
        self._segments += await asyncio.gather(*self._writing)
        return Loaded(self._version, self._mark, self._count, self._segments, left_over)

    def _kinds(self, rows: pa.RecordBatch, dues: pa.Int64Array) -> dict[Kind, pa.Int64Array]:
        """The rows of each entrypoint, priority and number of attempts, for now and for later."""
        columns = [_column(rows, name, default) for name, default in self._defaults._asdict().items()]
        columns.append(_column(pa.record_batch({"later": pc.not_equal(dues, 0)}), "later", None))
        if all(isinstance(column, repeat) for column in columns):
            return {next(zip(*columns, strict=False)): pa.arange(0, rows.num_rows)}
        kinds: dict[Kind, list[int]] = {}
        for row, kind in zip(range(rows.num_rows), zip(*columns, strict=False), strict=False):
            kinds.setdefault(kind, []).append(row)
        return {kind: pa.array(chosen, pa.int64()) for kind, chosen in kinds.items()}

    async def _write_full_piles(self) -> None:
        jobs_max, bytes_max = _SETTINGS.segment_jobs_max, _SETTINGS.segment_bytes_max
        for pile in self._piles.values():
            while len(pile) >= jobs_max or pile.size >= bytes_max:
                await self._write([pile.cut(jobs_max, bytes_max)])
        while _size(self._piles.values()) > _PILED_BYTES_MAX:
            largest = max(self._piles.values(), key=lambda pile: pile.size)
            await self._write([largest.cut(jobs_max, bytes_max)])

    async def _write(self, piles: list[Pile]) -> None:
        """Write piles of one line, by priority, as segments."""
        writer = SegmentWriter()
        for pile in piles:
            content = pile.joined
            writer.add_lines(
                content,
                count=len(pile),
                entrypoint=pile.entrypoint,
                status=pile.status,
                keys=pile.keys,
                ids=self._ids,
                payloads=content.count(_PAYLOAD_OBJECT) if self._has_large else 0,
                plain=not (self._has_large or self._may_crash_once) and pile.priority is not None,
            )
            if writer.size >= _SETTINGS.segment_bytes_max or pile is piles[-1]:
                creating = self._objects.create_segment(writer, self._version)
                self._writing.append(asyncio.create_task(creating))
                writer = SegmentWriter()
        # The next rows are made lines while these travel.
        await asyncio.sleep(0)
        while len(self._writing) > _WRITES_AT_ONCE:
            self._segments.append(await self._writing.popleft())

    async def _payload_fields(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        payloads = rows["payload"].cast(pa.binary()).fill_null(b"")
        if pc.max(pc.binary_length(payloads)).as_py() <= _SETTINGS.payload_inline_max:
            return payload_fields(payloads)
        turns = asyncio.Semaphore(_WRITES_AT_ONCE)

        async def field(payload: bytes) -> bytes:
            if len(payload) <= _SETTINGS.payload_inline_max:
                return payload_field(payload)
            async with turns:
                return await self._stowed(payload)

        return pa.array(await asyncio.gather(*map(field, payloads.to_pylist())), pa.binary())

    async def _stowed(self, payload: bytes) -> bytes:
        if len(payload) > _SETTINGS.payload_bytes_max:
            raise PayloadError(
                f"a payload has {len(payload)} bytes; the limit is {_SETTINGS.payload_bytes_max}."
                " Store it elsewhere and enqueue a reference to it."
            )
        self._has_large = True
        name = await self._objects.create_payload(payload, self._version)
        return b'%b"%b","payload_size":%d' % (_PAYLOAD_OBJECT, name.encode(), len(payload))


async def land(
    storage: Bucket, loaded: Sequence[Loaded], name: str | None = None, mark: LoadMark = FIRST
) -> bool:
    """Enqueue what the tasks loaded, in their order, all or nothing.

    With a name it is enqueued only once, as the part that `mark` says. False if it had been before.
    """
    segments, jobs = list[Segment](), list[Job]()
    before = 0
    for part in loaded:
        segments += [segment.moved(before) for segment in part.segments]
        for line in part.lines:
            job = decode_job(line, "a task's load")
            jobs.append(replace(job, sequence=job.sequence + before))
        before += part.count
    if not before and (name is None or mark.query):
        return True
    queue = DirectQueue(storage)
    operation: Enqueue | EnqueueSegments
    if segments or not _are_few(jobs):
        # Theirs, not today's: if what they wrote may have been collected, the queue has to notice.
        version = min(part.version for part in loaded)
        segments += [segment async for segment in _segments_of(jobs, SideObjects(storage.objects), version)]
        if len(segments) > _SEGMENTS_MAX:
            raise ConfigurationError(
                f"{before} jobs would need {len(segments)} segments, of at most {_SEGMENTS_MAX}: every"
                " partition holds many entrypoints or priorities. Bring each together first:"
                ' df.repartition("entrypoint"); if there are that many, write them in several parts.'
                " Nothing was enqueued."
            )
        operation = EnqueueSegments(tuple(segments))
    else:
        operation = Enqueue(tuple(sorted(jobs, key=lambda job: job.sequence)))
    if name is None:
        await queue.apply(operation)
        return True
    is_new: bool = await queue.apply(Load(name, mark, operation))
    return is_new


async def discard(storage: Bucket, loaded: Sequence[Loaded]) -> None:
    """Remove the segments of tasks that succeeded, where others failed."""
    with suppress(StorageError, OSError):
        await SideObjects(storage.objects).delete(
            segment.name for part in loaded for segment in part.segments
        )


async def _segments_of(jobs: list[Job], objects: SideObjects, version: int) -> AsyncIterator[Segment]:
    in_line = sorted(jobs, key=lambda job: (job.status, job.entrypoint, key_of(job)))
    for _, group in groupby(in_line, key=lambda job: (job.status, job.entrypoint)):
        async for segment, _ in objects.create_segments(each(group), version):
            yield segment


def _are_few(jobs: list[Job]) -> bool:
    size = sum(map(line_bytes, jobs))
    return len(jobs) <= _SETTINGS.hot_jobs_max // 2 and size <= _SETTINGS.hot_bytes_max // 2


def _column(rows: pa.RecordBatch, name: str, default: Any) -> Iterable[Any]:
    """The values of a column; repeated, if it is always the same."""
    if name not in rows.schema.names:
        return repeat(default)
    column = rows[name].cast(pa.int64()) if isinstance(default, int) else rows[name]
    column = column.fill_null(default) if default is not None else column
    first = column[0]
    is_same = not column.null_count and pc.all(pc.equal(column, first)).as_py()
    return repeat(first.as_py()) if is_same else column.to_pylist()


def _dues(rows: pa.RecordBatch, now: datetime) -> pa.Int64Array:
    """When each row's job is due, in microseconds; 0 if it is not for later."""
    if "run_at" not in rows.schema.names:
        return pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    dues = rows["run_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).fill_null(0)
    return pc.if_else(pc.greater(dues, due_key(now)[0]), dues, 0)


def _size(piles: Iterable[Pile]) -> int:
    return sum(pile.size for pile in piles)
