"""The switch that all who could make a span look at first."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from bucketq.new_job import JobOptions

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from bucketq.tracing.spans import Spans


class Switch:
    """Where spans are made, if they are."""

    spans: "Spans | None" = None


TRACING = Switch()


def enqueuing(entrypoint: str, options: JobOptions) -> "AbstractContextManager[Span | None]":
    """The span of an enqueue, if one is to be made: whoever gives the trace makes its spans."""
    if TRACING.spans is None or "traceparent" in options:
        return nullcontext()
    return TRACING.spans.enqueuing(entrypoint)
