"""Export: spans leave the process by OTLP over HTTP, to where the standard OTEL_… variables say.

For programs of which bucketq is the main part: its worker and its broker. Any other has a tracer provider of
its own, and calls `bucketq.tracing.enable`.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bucketq.errors import ConfigurationError
from bucketq.tracing import disable, enable

# For the last spans to leave; a collector that is away must not keep the process.
_FLUSH_S = 3.0
_exporting = False


def is_exporting() -> bool:
    """Whether this process sends its spans itself; those that it starts are to do so too."""
    return _exporting


@contextmanager
def exported_traces() -> Iterator[None]:
    """Make spans, and send them, inside the block; at its end wait a little until the last are sent.

    If the program has set up a tracer provider itself, that one is used, and left alone at the end. Raises
    ConfigurationError where OpenTelemetry is not installed.
    """
    global _exporting
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError("traces need an extra: pip install 'bucketq[traces]'") from error
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        enable()
        yield
        return
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": "bucketq"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # So that the spans which handlers make themselves go the same way.
    trace.set_tracer_provider(provider)
    enable(provider)
    _exporting = True
    try:
        yield
    finally:
        _exporting = False
        disable()
        flushing = threading.Thread(target=provider.shutdown, name="bucketq traces", daemon=True)
        flushing.start()
        flushing.join(_FLUSH_S)
