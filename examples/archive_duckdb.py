"""What was done, asked by SQL: DuckDB over the archive of a queue. No Spark, no server.

    pip install duckdb pyarrow
    cd examples
    python archive_duckdb.py                              # makes a queue here, and asks it
    python archive_duckdb.py s3://my-bucket/jobs.json     # asks another one

`Archive` is the reader: it gives every finished job once. The objects themselves may hold a job twice while
small ones are made one, and the jobs that finished last are not among them yet.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

import bucketq.sync
from bucketq.archive import Archive

COLUMNS = pa.schema(
    {
        "id": pa.string(),
        "entrypoint": pa.string(),
        "status": pa.string(),
        "created_at": pa.timestamp("us", "UTC"),
        "finished_at": pa.timestamp("us", "UTC"),
        "attempts": pa.int64(),
        "error": pa.string(),
        "payload": pa.string(),
        "result": pa.string(),
    }
)

QUESTIONS = {
    "what became of them": """
        SELECT entrypoint, status, count(*) AS jobs, max(attempts) AS attempts
        FROM archive GROUP BY ALL ORDER BY ALL""",
    "why jobs failed": """
        SELECT split_part(error, ':', 1) AS class, count(*) AS jobs, min(error) AS example
        FROM archive WHERE status = 'dead' GROUP BY ALL ORDER BY jobs DESC""",
    "what was charged": """
        SELECT payload->>'$.country' AS country, sum((result->>'$.cents')::BIGINT) AS cents
        FROM archive WHERE entrypoint = 'charge' AND status = 'completed'
        GROUP BY ALL ORDER BY cents DESC, country""",
}


def read(url: str, since: datetime) -> pa.RecordBatchReader:
    """The finished jobs as Arrow, some thousand at a time; only the hours since then are read."""

    def rows() -> Iterator[dict[str, object]]:
        for job in Archive.open(url).jobs_sync(since=since):
            yield {
                "id": job.id,
                "entrypoint": job.entrypoint,
                "status": job.status.value,
                "created_at": job.created_at,
                "finished_at": job.finished_at,
                "attempts": job.attempts_total,
                "error": job.error,
                "payload": job.payload.decode(errors="replace"),
                "result": json.dumps(job.result),
            }

    def batches() -> Iterator[pa.RecordBatch]:
        left = rows()
        while some := list(islice(left, 10_000)):
            yield pa.RecordBatch.from_pylist(some, COLUMNS)

    return pa.RecordBatchReader.from_batches(COLUMNS, batches())


def make_queue(url: str) -> None:
    """Orders of three countries; the one without a country fails."""
    countries = ["AT", "DE", "AT", "CH", None]
    with bucketq.sync.connect(url) as queue:
        for cents, country in enumerate(countries, 1):
            queue.enqueue("charge", {"cents": 100 * cents, "country": country}, max_attempts=1)
        for job in queue.dequeue("charge", batch_size=10):
            order = job.json()
            if order["country"]:
                queue.ack(job, result={"cents": order["cents"]})
            else:
                queue.nack(job, "ValueError: no country")


def main(url: str | None = None) -> None:
    if url is None:
        url = (Path.cwd() / "queue.json").as_uri()
        make_queue(url)
    database = duckdb.connect()
    database.register("jobs", read(url, since=datetime.now(UTC) - timedelta(days=7)))
    # Read once, into DuckDB; `duckdb.connect("archive.db")` would keep it.
    database.execute("CREATE TABLE archive AS SELECT * FROM jobs")
    for title, question in QUESTIONS.items():
        print(title)
        for row in database.sql(question).fetchall():
            print("   ", *row)


if __name__ == "__main__":
    main(*sys.argv[1:])
