"""Trace context: the trace that a job belongs to, in the two texts that the W3C has agreed on.

    traceparent   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                  version, trace, span, flags
    tracestate    what vendors add to it, such as "vendor=abc"

Anybody may send them, so what does not have that form is dropped: a trace is no reason to refuse a job.
"""

import re
from typing import Annotated, NamedTuple

from msgspec import Meta

TRACESTATE_MAX = 256
_ZERO = "(?!0+-)"
_TRACEPARENT = rf"^(?!ff)[0-9a-f]{{2}}-{_ZERO}[0-9a-f]{{32}}-{_ZERO}[0-9a-f]{{16}}-[0-9a-f]{{2}}$"
_PRINTABLE = r"^[\x20-\x7e]+\Z"

Traceparent = Annotated[str, Meta(pattern=_TRACEPARENT, max_length=55)]
Tracestate = Annotated[str, Meta(pattern=_PRINTABLE, max_length=TRACESTATE_MAX)]

_is_traceparent = re.compile(_TRACEPARENT, re.ASCII).fullmatch
_is_printable = re.compile(_PRINTABLE, re.ASCII).fullmatch


class TraceContext(NamedTuple):
    """Where a job, or a request, stands in a trace; both None if it is of none."""

    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def of(cls, traceparent: object, tracestate: object = None) -> "TraceContext":
        """What somebody has sent, as far as it has the form; a long tracestate is left out.

        >>> TraceContext.of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1").tracestate
        'a=1'
        >>> TraceContext.of("00-nonsense-01")
        TraceContext(traceparent=None, tracestate=None)
        """
        if not isinstance(traceparent, str) or not _is_traceparent(traceparent):
            return _NONE
        is_state = isinstance(tracestate, str) and len(tracestate) <= TRACESTATE_MAX
        return cls(traceparent, str(tracestate) if is_state and _is_printable(str(tracestate)) else None)

    @property
    def trace_id(self) -> str | None:
        """The trace alone, as tools ask for it."""
        return self.traceparent and self.traceparent.split("-")[1]


_NONE = TraceContext()
