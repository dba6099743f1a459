"""Pile: the lines of new jobs, as Arrow makes them of many rows at once."""

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from bucketq.job import Job, JobStatus
from bucketq.jobline import DEPTH_MAX, LinePattern, are_json_lines, payload_field
from bucketq.mint import ID_DIGITS_COUNTED
from bucketq.segment import Key

# So many ids begin alike.
ROWS_MAX = 16**ID_DIGITS_COUNTED


class Pile:
    """Lines of one entrypoint and one priority, by their places among the rows.

    Or, where there is no priority, those of jobs for later, by their times.
    """

    def __init__(self, entrypoint: str, priority: int | None) -> None:
        self.entrypoint = entrypoint
        self.priority = priority
        self._lines = pa.array([], pa.binary())
        self._places = pa.array([], pa.int64())
        # When the jobs are due, in microseconds.
        self._dues = pa.array([], pa.int64())

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def status(self) -> JobStatus:
        """That of its jobs."""
        return JobStatus.SCHEDULED if self.priority is None else JobStatus.QUEUED

    @property
    def line(self) -> tuple[JobStatus, str]:
        """The line that its jobs stand in."""
        return self.status, self.entrypoint

    @property
    def size(self) -> int:
        """The bytes of its lines."""
        return int(pc.sum(pc.binary_length(self._lines)).as_py() or 0)

    @property
    def lines(self) -> pa.BinaryArray:
        """The lines, in order."""
        return self._lines

    @property
    def joined(self) -> bytes:
        """The lines as they stand in a segment."""
        return joined(self._lines, b",\n")

    @property
    def keys(self) -> tuple[Key, Key]:
        """The places in line of its first and its last job."""
        majors = self._dues if self.priority is None else pa.repeat(self.priority, len(self))
        first, last = ((majors[end].as_py(), 0, self._places[end].as_py()) for end in (0, -1))
        return first, last

    def add(self, lines: pa.BinaryArray, places: pa.Int64Array, dues: pa.Int64Array) -> None:
        """Add lines, each with its place among the rows, and when its job is due."""
        is_in_order = not len(self) or self._places[-1].as_py() < places[0].as_py()
        self._lines = pa.concat_arrays([self._lines, lines])
        self._places = pa.concat_arrays([self._places, places])
        self._dues = pa.concat_arrays([self._dues, dues])
        if not is_in_order or self.priority is None:
            # Rows that differ in `max_attempts` only come one kind after the other.
            self._sort()

    def cut(self, jobs_max: int, bytes_max: int) -> "Pile":
        """Take the first lines away, at least one, as many as are allowed."""
        sizes = pc.cumulative_sum(pc.binary_length(self._lines).cast(pa.int64()))
        fitting = pc.sum(pc.less_equal(sizes, bytes_max)).as_py()
        count = max(1, min(jobs_max, fitting))
        taken = Pile(self.entrypoint, self.priority)
        taken._keep(self, 0, count)
        self._keep(self, count, len(self))
        return taken

    def _keep(self, of: "Pile", start: int, end: int) -> None:
        self._lines, self._places = of._lines[start:end], of._places[start:end]
        self._dues = of._dues[start:end]

    def _sort(self) -> None:
        columns = pa.table({"due": self._dues, "place": self._places})
        order = pc.sort_indices(columns, [("due", "ascending"), ("place", "ascending")])
        self._lines, self._places = self._lines.take(order), self._places.take(order)
        self._dues = self._dues.take(order)


def lines_of(
    model: Job, id_beginning: str, rows: pa.Int64Array, places: pa.Int64Array, payloads: pa.BinaryArray
) -> pa.BinaryArray:
    """The lines of jobs like a model, whose ids end with the number of their row."""
    before, between, after = LinePattern.of(model, id_beginning)
    id_ends = _id_ends(1 + rows[-1].as_py() // 1024).take(rows)
    in_line = places.cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(before, id_ends, between, in_line, after, payloads, b"}", b"")


def due_fields(dues: pa.Int64Array) -> pa.BinaryArray:
    """What stands in the lines of jobs for later; nothing where a job is not: its time is 0."""
    moments = pc.strftime(dues.cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%SZ").cast(pa.binary())
    fields = pc.binary_join_element_wise(b',"status":"scheduled","run_at":"', moments, b'"', b"")
    return pc.if_else(pc.equal(dues, 0), pa.scalar(b"", pa.binary()), fields)


def payload_fields(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """What stands for each payload in the line of its job."""
    lengths = pc.binary_length(payloads)
    brackets = pc.max(lengths).as_py() // 2
    if brackets > DEPTH_MAX:
        # There is room for them, so they have to be counted.
        opening = pc.add(pc.count_substring(payloads, b"["), pc.count_substring(payloads, b"{"))
        brackets = pc.max(opening).as_py()
    if are_json_lines(joined(payloads, b","), lengths.to_pylist(), brackets):
        return pc.binary_join_element_wise(b',"json":', payloads, b"")
    return pa.array(map(payload_field, payloads.to_pylist()), pa.binary())


def joined(texts: pa.BinaryArray, between: bytes) -> bytes:
    """All of them in one."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    content: bytes = pc.binary_join(whole, pa.scalar(between, pa.binary()))[0].as_py()
    return content


@cache
def _id_ends(thousands: int) -> pa.BinaryArray:
    return pa.array([b"%05x" % number for number in range(1024 * thousands)], pa.binary())
