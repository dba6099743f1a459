"""Traces of a process that serves, or works."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What is traced."""

    traces: Annotated[bool, "send OpenTelemetry spans to where the OTEL_… variables say"] = False

    def exported(self) -> AbstractContextManager[None]:
        """Make spans inside the block, if they are wanted. Raises ConfigurationError."""
        from bucketq.tracing.export import exported_traces

        return exported_traces() if self.traces else nullcontext()
