"""Tracing: OpenTelemetry from enqueue through run, off until `enable` is called.

    enqueue mail  (producer) ─── the job carries the context ──▶ process mail  (consumer, one an attempt)
                                                                   ├─ the handler's own spans
                                                                   └─ enqueue thumb  ──▶ process thumb …

    from bucketq import tracing
    tracing.enable()            # spans go where the program's tracer provider sends them

While it is off, nothing of OpenTelemetry is imported, and `TRACING.spans is None` is all that it costs.
"""

from typing import TYPE_CHECKING

from bucketq.errors import ConfigurationError
from bucketq.tracing.switch import TRACING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["disable", "enable"]


def enable(tracer_provider: "TracerProvider | None" = None) -> None:
    """Make spans from now on, in this process, by a provider or by the global one.

    Raises ConfigurationError where OpenTelemetry is not installed.
    """
    try:
        from bucketq.tracing.spans import Spans
    except ImportError as error:
        raise ConfigurationError("traces need an extra: pip install 'bucketq[traces]'") from error
    TRACING.spans = Spans(tracer_provider)


def disable() -> None:
    """Make no more spans."""
    TRACING.spans = None
