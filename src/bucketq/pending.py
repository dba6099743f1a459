"""Pending: an operation on its way, with whoever waits for its answer.

A caller may go away before the answer comes. Of most operations it need not be told then; that of some, such
as a dequeue, has to be set right again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bucketq.operation import Operation, questions_of
from bucketq.segment import Needed
from bucketq.shelf import Findings

IfAbandoned = Callable[[Any], Operation | None]


class Pending(NamedTuple):
    """An operation on its way, and who waits for its answer, if anybody does.

    `if_abandoned` turns the answer of an operation whose caller has gone away into the
    operation that sets things right again.
    """

    operation: Operation
    answer: "asyncio.Future[Any] | None"
    if_abandoned: IfAbandoned | None = None
    # What it has learned from segments, if it was deferred for one.
    findings: Findings | None = None

    def deferred(self, needed: Needed) -> "Pending":
        """The same, to be tried again with what it has learned, when a segment was read."""
        findings = self.findings or Findings(questions_of(self.operation))
        findings.defer(needed)
        return self._replace(findings=findings)


def give_answer(pending: Pending, outcome: object) -> Operation | None:
    """Tell whoever waits; return what sets things right again if nobody does any more."""
    if pending.answer is None:
        return None
    if not pending.answer.done():
        if isinstance(outcome, Exception):
            pending.answer.set_exception(outcome)
        else:
            pending.answer.set_result(outcome)
    elif pending.if_abandoned and not isinstance(outcome, Exception):
        return pending.if_abandoned(outcome)
    return None


def refuse(batch: Iterable[Pending], error: Exception | None) -> None:
    """Tell everybody who waits of an error, or that nothing will come any more."""
    for pending in batch:
        if pending.answer is not None and not pending.answer.done():
            if error is None:
                pending.answer.cancel()
            else:
                pending.answer.set_exception(error)


def ignore(answer: "asyncio.Future[Any]") -> None:
    """Let an answer go that nobody waits for, be it an error."""
    _ = answer.cancelled() or answer.exception()
