"""Lines of the archive as Arrow columns, as they are: what the table `lines` consists of."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from bucketq.archive_lines import ArchiveLines, Damage
from bucketq.archive_name import ArchiveName
from bucketq.archive_selection import Selection
from bucketq.archived_job import batch_of, decode_archived
from bucketq.errors import CorruptStateError
from bucketq.spark.archived_columns import UnreadableLinesError, archived
from bucketq.spark.columns import ARCHIVE, LINES


def as_they_are(lines: ArchiveLines, damages: Iterable[Damage], names: Sequence[str]) -> pa.RecordBatch:
    """The named columns of lines as they are, each with the reason if it is no archived job."""
    reasons = repeat(None) if _are_sound(lines.lines) else map(_why, lines.lines)
    batch = _batch_of_object(lines.name)
    rows: list[tuple[Any, ...]] = [
        (lines.name, number, batch_of(line) or batch, line.decode(errors="backslashreplace"), reason)
        for number, line, reason in zip(lines.numbers, lines.lines, reasons, strict=False)
    ]
    rows += [
        (damage.name, damage.line, _batch_of_object(damage.name), None, damage.reason) for damage in damages
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(LINES)
    table = dict(zip(LINES.names, columns, strict=True))
    schema = pa.schema([LINES.field(name) for name in names])
    return pa.RecordBatch.from_arrays(
        [pa.array(table[field.name], field.type) for field in schema], schema=schema
    )


def _are_sound(lines: Sequence[bytes]) -> bool:
    try:
        b"".join(lines).decode()
        return not lines or archived(lines, ARCHIVE.names, Selection()).num_rows == len(lines)
    except (UnreadableLinesError, UnicodeDecodeError):
        return False


def _batch_of_object(name: str) -> int | None:
    """That of lines that do not say: of several batches the last one, as for every reader."""
    parsed = ArchiveName.parse(name)
    return parsed and parsed.last


def _why(line: bytes) -> str | None:
    try:
        line.decode()
        decode_archived(line)
        archived([line], ARCHIVE.names, Selection())
    except UnicodeDecodeError as error:
        return f"no archived job: {error}"
    except (CorruptStateError, UnreadableLinesError) as error:
        return str(error)
    return None
