"""Live jobs as Arrow columns: what the table `jobs` consists of."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bucketq.job import Job
from bucketq.spark.columns import ATTEMPT, JOBS, as_json


def live(jobs: Sequence[Job], names: Sequence[str]) -> pa.RecordBatch:
    """The named columns of jobs in the queue."""
    schema = pa.schema([JOBS.field(name) for name in names])
    columns = [pa.array([_LIVE[name](job) for job in jobs], JOBS.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _live_attempts(job: Job) -> list[dict[str, Any]]:
    """Those that have ended; one that is going on is told by `claimed_at` and `worker`."""
    return [{name: getattr(attempt, name) for name in ATTEMPT.names} for attempt in job.history]


_LIVE: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "entrypoint": lambda job: job.entrypoint,
    "status": lambda job: job.status.value,
    "priority": lambda job: job.priority,
    "sequence": lambda job: job.sequence,
    "created_at": lambda job: job.created_at,
    "run_at": lambda job: job.run_at,
    "claimed_at": lambda job: job.claimed_at,
    "heartbeat_at": lambda job: job.heartbeat_at,
    "attempts": _live_attempts,
    "attempts_total": lambda job: job.attempts,
    "max_attempts": lambda job: job.max_attempts,
    "worker": lambda job: job.worker,
    "error": lambda job: job.error,
    "payload": lambda job: None if job.payload_object else job.payload,
    "payload_json": lambda job: as_json(job.payload),
    "payload_object": lambda job: job.payload_object,
    "payload_size": lambda job: job.payload_size,
}
