"""Spans of a test: made for real, and kept in memory."""

from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bucketq import tracing


class Kept:
    """The spans that have ended, and a tracer for those that a test makes itself."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, *names):
        return [span for span in self._exporter.get_finished_spans() if span.name in names]

    def one(self, name):
        [span] = self.named(name)
        return span


@contextmanager
def kept_spans():
    kept = Kept()
    tracing.enable(kept.provider)
    try:
        yield kept
    finally:
        tracing.disable()
        kept.provider.shutdown()


def trace_of(span):
    return span.context.trace_id


def parent_of(span):
    return span.parent and span.parent.span_id
