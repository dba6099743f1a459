"""ResultTable: how jobs ended, as rows of Parquet files, which the executors write.

Each chunk is a file. A row is written before the queue is told of its job: what is settled is in the
table, and an attempt whose end the queue never heard of may be there too. `job_id` and `attempt` tell
rows of the same attempt.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from bucketq.app.outcome import Completed, Failed, Outcome, Rejected
from bucketq.job import Job

_MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "job_id": pa.string(),
        "entrypoint": pa.string(),
        "attempt": pa.int32(),
        # completed; failed, and to be tried again if attempts are left; rejected: no other can help.
        "status": pa.string(),
        "result": pa.string(),
        "error": pa.string(),
        "started_at": _MOMENT,
        "finished_at": _MOMENT,
    }
)


class Tried(NamedTuple):
    """One attempt: how it ended, when it began, and when it ended."""

    outcome: Outcome
    started_at: datetime
    ended_at: datetime


class ResultTable:
    """A folder of Parquet files, given by its path or URL. Raises what Arrow raises if there is none."""

    def __init__(self, folder: str) -> None:
        self._files, self._folder = _opened(folder)

    def write(self, tried: Iterable[tuple[Job, Tried]]) -> None:
        """Add rows, all or none of them."""
        rows = [_row(job, one) for job, one in tried]
        if not rows:
            return
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        name = f"{uuid4().hex}.parquet"
        # Readers pass over names that begin so: a file that is not whole is no part of the table.
        unfinished = f"{self._folder}/_{name}"
        with self._files.open_output_stream(unfinished) as file:
            pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), file)
        self._files.move(unfinished, f"{self._folder}/{name}")


def _opened(folder: str) -> tuple[FileSystem, str]:
    files, path = FileSystem.from_uri(folder) if "://" in folder else (LocalFileSystem(), folder)
    if isinstance(files, LocalFileSystem):
        Path(path).mkdir(parents=True, exist_ok=True)
    return files, path


def _row(job: Job, tried: Tried) -> tuple[Any, ...]:
    outcome = tried.outcome
    result = (outcome.result.decode() or None) if isinstance(outcome, Completed) else None
    error = outcome.error if isinstance(outcome, Failed | Rejected) else None
    status = type(outcome).__name__.lower()
    return job.id, job.entrypoint, job.attempts, status, result, error, tried.started_at, tried.ended_at
