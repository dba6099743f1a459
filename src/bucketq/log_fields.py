"""Log fields: what structured logs tell of a job, in lines about it and in those that its handler writes.

With a logging set-up of your own, add the filter to its handlers:

    handler.addFilter(LogFields())      # records get job_id, entrypoint, attempt and worker

With tracing on, records have `trace_id` and `span_id` too.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bucketq.job import Job
from bucketq.trace_context import TraceContext
from bucketq.tracing.switch import TRACING

_JOB: ContextVar[Job | None] = ContextVar("bucketq_logged_job", default=None)


def fields_of(job: Job) -> dict[str, object]:
    """What is told of a job. Neither its payload nor its token."""
    fields: dict[str, object] = {"job_id": job.id, "entrypoint": job.entrypoint, "attempt": job.attempts}
    if job.worker is not None:
        fields["worker"] = job.worker
    if TRACING.spans is not None and job.traceparent is not None:
        fields["trace_id"] = TraceContext(job.traceparent).trace_id
    return fields


@contextmanager
def logged_as(job: Job) -> Iterator[None]:
    """Inside the block a handler runs: the lines that it writes are about the job."""
    token = _JOB.set(job)
    try:
        yield
    finally:
        _JOB.reset(token)


class LogFields(logging.Filter):
    """Adds what is known of the job whose handler runs here, and of the span. It drops nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        job = _JOB.get()
        fields = fields_of(job) if job is not None else {}
        if TRACING.spans is not None and (here := TRACING.spans.current().traceparent) is not None:
            _, fields["trace_id"], fields["span_id"], _ = here.split("-")
        for name, value in fields.items():
            # What a line says itself is about another job, or better.
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
