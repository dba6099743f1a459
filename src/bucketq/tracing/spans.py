"""Spans: what bucketq tells OpenTelemetry, in the words of its conventions for messaging.

The system is `bucketq`, the destination a job's entrypoint, the message its id. What the conventions have
no word for begins with `bucketq.`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    TraceState,
    get_current_span,
    get_tracer,
    set_span_in_context,
    use_span,
)
from opentelemetry.util.types import AttributeValue

from bucketq.job import Job
from bucketq.trace_context import TRACESTATE_MAX, TraceContext

Attributes = dict[str, AttributeValue]


class Spans:
    """Makes the spans of a process."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = get_tracer("bucketq", tracer_provider=tracer_provider)

    @contextmanager
    def enqueuing(self, entrypoint: str) -> Iterator[Span]:
        """The span of an enqueue; jobs that are made inside the block carry it."""
        span = self._tracer.start_span(
            f"enqueue {entrypoint}",
            kind=SpanKind.PRODUCER,
            attributes=_about(entrypoint, "enqueue", "send"),
        )
        with use_span(span, end_on_exit=True):
            yield span

    @contextmanager
    def attempt(self, job: Job) -> Iterator["AttemptSpan"]:
        """The span of an attempt, inside which the handler runs.

        It goes on with the trace of whoever enqueued the job. A dead job may be done again days later: that
        is a trace of its own, with a link to the old one.
        """
        sent = _sent(TraceContext(job.traceparent, job.tracestate))
        is_child = sent is not None and job.redrive_of is None
        attributes = _about(job.entrypoint, "process", "process")
        attributes |= {"messaging.message.id": job.id, "bucketq.attempt": job.attempts}
        if job.worker is not None:
            attributes["messaging.client.id"] = job.worker
        if job.redrive_of is not None:
            attributes["bucketq.redrive_of"] = job.redrive_of
        span = self._tracer.start_span(
            f"process {job.entrypoint}",
            context=_within(sent) if is_child else Context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(sent)] if sent is not None and not is_child else None,
        )
        told = AttemptSpan(span)
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield told
            except BaseException:
                told.end("interrupted")
                raise

    @contextmanager
    def committing(self, operations: int) -> Iterator[Span]:
        """The span of a write of queue.json, for so many operations; it is of no other trace."""
        span = self._tracer.start_span(
            "commit", context=Context(), attributes={"bucketq.operations": operations}
        )
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            span.end()

    @contextmanager
    def request(self, way: str, method: str, caller: str, sent: TraceContext) -> Iterator[None]:
        """The span of what somebody who traces asks of a broker."""
        attributes: Attributes = {"rpc.method": method, "bucketq.way": way}
        if caller:
            attributes["bucketq.caller"] = caller
        span = self._tracer.start_span(
            method, context=_within(_sent(sent)), kind=SpanKind.SERVER, attributes=attributes
        )
        with use_span(span, end_on_exit=True):
            yield

    @contextmanager
    def going_on(self, trace: TraceContext) -> Iterator[None]:
        """Go on, inside the block, with a span of another process."""
        token = attach(_within(_sent(trace)))
        try:
            yield
        finally:
            detach(token)

    def record(self, error: BaseException) -> None:
        """Tell the span that is open here of an error."""
        get_current_span().record_exception(error)

    def current(self) -> TraceContext:
        """The span that is open here, if any, as it travels."""
        here = get_current_span().get_span_context()
        if not here.is_valid:
            return TraceContext()
        traceparent = f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"
        state = here.trace_state.to_header() if here.trace_state else None
        return TraceContext(traceparent, state if state and len(state) <= TRACESTATE_MAX else None)


class AttemptSpan:
    """The span of one attempt."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, outcome: str, error: str | None = None) -> None:
        """Tell how the attempt ended."""
        self._span.set_attribute("bucketq.outcome", outcome)
        if error is not None:
            self._span.set_attribute("error.type", error.partition(":")[0][:100])
            self._span.set_status(Status(StatusCode.ERROR, error))


def _about(entrypoint: str, name: str, kind: str) -> Attributes:
    return {
        "messaging.system": "bucketq",
        "messaging.destination.name": entrypoint,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }


def _sent(trace: TraceContext) -> SpanContext | None:
    if trace.traceparent is None:
        return None
    _, trace_id, span_id, flags = trace.traceparent.split("-")
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([trace.tracestate]) if trace.tracestate else None,
    )


def _within(sent: SpanContext | None) -> Context:
    return set_span_in_context(NonRecordingSpan(sent), Context()) if sent is not None else Context()
