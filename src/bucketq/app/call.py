"""Call: a handler with its arguments, ready to be enqueued."""

from typing import NamedTuple, cast

from bucketq.new_job import JobOptions
from bucketq.trace_context import TraceContext


class Call(NamedTuple):
    """What `handler.call(...)` makes: a job that is not in any queue yet.

    Enqueue it with `app.enqueue`, several of them in one commit; or give it to `Running.enqueue`, and
    the commit that completes the running job enqueues it too.
    """

    entrypoint: str
    # JSON already, and seen to fit the handler.
    payload: bytes
    priority: int
    options: JobOptions

    def within(self, trace: TraceContext) -> "Call":
        """The same, of a trace, unless it is of one already."""
        if trace.traceparent is None or "traceparent" in self.options:
            return self
        given = {name: text for name, text in trace._asdict().items() if text is not None}
        return self._replace(options=cast(JobOptions, {**self.options, **given}))
