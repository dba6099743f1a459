"""The trace of whoever asks something of a broker, as far as the request that is under way here told it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bucketq.trace_context import TraceContext
from bucketq.tracing.switch import TRACING

_NONE = TraceContext()
_SENT: ContextVar[TraceContext] = ContextVar("bucketq_sent_trace", default=_NONE)


def sent_trace() -> TraceContext:
    """The trace that jobs belong to which are made here, unless they say another."""
    return _SENT.get()


@contextmanager
def asked_within(sent: TraceContext, way: str, method: str, caller: str) -> Iterator[None]:
    """Inside the block somebody's request is answered; if they trace, so does the broker if it is to."""
    token = _SENT.set(sent)
    try:
        if TRACING.spans is None:
            yield
        else:
            with TRACING.spans.request(way, method, caller, sent):
                _SENT.set(TRACING.spans.current())
                yield
    finally:
        _SENT.reset(token)
