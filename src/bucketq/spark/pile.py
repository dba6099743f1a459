"""Pile: the lines of new jobs, as Arrow makes them of many rows at once."""

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from bucketq.job import Job
from bucketq.jobline import DEPTH_MAX, LinePattern, are_json_lines, payload_field
from bucketq.mint import ID_DIGITS_COUNTED

# So many ids begin alike.
ROWS_MAX = 16**ID_DIGITS_COUNTED


class Pile:
    """Lines of one entrypoint and one priority, by their places among the rows."""

    def __init__(self, entrypoint: str, priority: int) -> None:
        self.entrypoint = entrypoint
        self.priority = priority
        self.lines = pa.array([], pa.binary())
        self.places = pa.array([], pa.int64())

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def size(self) -> int:
        """The bytes of its lines."""
        return int(pc.sum(pc.binary_length(self.lines)).as_py() or 0)

    @property
    def joined(self) -> bytes:
        """The lines as they stand in a segment."""
        return joined(self.lines, b",\n")

    def add(self, lines: pa.BinaryArray, places: pa.Int64Array) -> None:
        """Add lines, each with its place among the rows."""
        is_in_order = not len(self) or self.places[-1].as_py() < places[0].as_py()
        self.lines = pa.concat_arrays([self.lines, lines])
        self.places = pa.concat_arrays([self.places, places])
        if not is_in_order:
            # Rows that differ in `max_attempts` only come one kind after the other.
            order = pc.sort_indices(self.places)
            self.lines, self.places = self.lines.take(order), self.places.take(order)

    def cut(self, jobs_max: int, bytes_max: int) -> "Pile":
        """Take the first lines away, at least one, as many as are allowed."""
        sizes = pc.cumulative_sum(pc.binary_length(self.lines).cast(pa.int64()))
        fitting = pc.sum(pc.less_equal(sizes, bytes_max)).as_py()
        count = max(1, min(jobs_max, fitting))
        taken = Pile(self.entrypoint, self.priority)
        taken.lines, taken.places = self.lines[:count], self.places[:count]
        self.lines, self.places = self.lines[count:], self.places[count:]
        return taken


def lines_of(
    model: Job, id_beginning: str, rows: pa.Int64Array, places: pa.Int64Array, payloads: pa.BinaryArray
) -> pa.BinaryArray:
    """The lines of jobs like a model, whose ids end with the number of their row."""
    before, between, after = LinePattern.of(model, id_beginning)
    id_ends = _id_ends(1 + rows[-1].as_py() // 1024).take(rows)
    in_line = places.cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(before, id_ends, between, in_line, after, payloads, b"}", b"")


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
