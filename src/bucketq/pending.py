"""Pending: an operation on its way, with whoever waits for its answer.

A caller may go away before the answer comes. Of most operations it need not be told then; that of some, such
as a dequeue, has to be set right again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bucketq.operation import Batch, Dequeue, DequeueSegment, Operation, questions_of
from bucketq.shelf import Findings

# For how many segments the dequeues of a client's batch wait together: its client does not wait for ever, and
# other operations wait with them.
_DEQUEUES_WAIT_FOR = 20
_OTHERS_WAIT_FOR = 3

log = logging.getLogger("bucketq")

IfAbandoned = Callable[[Any], Operation | None]


class Pending(NamedTuple):
    """An operation on its way, and who waits for its answer, if anybody does.

    `if_abandoned` turns the answer of an operation whose caller has gone away into the
    operation that sets things right again.
    """

    operation: Operation
    answer: "asyncio.Future[Any] | None"
    if_abandoned: IfAbandoned | None = None
    # What it has learned from segments.
    findings: Findings | None = None
    # When it was submitted, by the monotonic clock; for what nobody waits for, when its batch begins.
    since_s: float = float("inf")

    def searching(self) -> "tuple[Pending, Findings]":
        """The same, with what it has learned from segments."""
        if self.findings is not None:
            return self, self.findings
        findings = _new_findings(self.operation)
        return self._replace(findings=findings), findings


def _new_findings(operation: Operation) -> Findings:
    questions = questions_of(operation)
    if not isinstance(operation, Batch):
        return Findings(questions)
    has_others = any(not isinstance(one, Dequeue | DequeueSegment | None) for one in operation.operations)
    return Findings(questions, _OTHERS_WAIT_FOR if has_others else _DEQUEUES_WAIT_FOR)


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


async def outlast(
    task: "asyncio.Task[None]", last_try_s: float, pendings: Callable[[], Iterable[Pending]]
) -> None:
    """Wait for a task that answers operations to end. What nobody waits for any more is not insisted on."""
    while not task.done():
        await asyncio.wait([task], timeout=last_try_s)
        left = [*pendings()]
        if not task.done() and all(one.answer is None or one.answer.done() for one in left):
            log.warning(
                "the queue was closed before all was written: nobody waits for what is left (%d operations),"
                " and claims that it holds end by the stale timeout",
                len(left),
            )
            task.cancel()
            await asyncio.wait([task])


def ignore(answer: "asyncio.Future[Any]") -> None:
    """Let an answer go that nobody waits for, be it an error."""
    _ = answer.cancelled() or answer.exception()
