"""Undo: an operation of several transitions lands whole, or not at all."""

from collections.abc import Callable
from typing import Self, TypeVar

from bucketq.state.dispatch import WithDispatch

T = TypeVar("T")


class Undoable(WithDispatch):
    """Runs operations; one that raises leaves the state as it was."""

    def apply(self, operation: Callable[[Self], T]) -> T:
        """Run an operation; if it raises, the state is as it was before."""
        self._table.begin()
        self.kept_keys.begin()
        self._journal.begin()
        return self.attempt(operation)

    def attempt(self, operation: Callable[[Self], T]) -> T:
        """Run a part of an operation; if it raises, the state is as it was before that part."""
        save_point = self._table.save_point()
        sequence, changes, size = self.sequence, self.changes, self.size
        backlog, loads, dropped = self.backlog, self.loads, len(self.dropped)
        finished, kept_keys = len(self.ledger.finished), self.kept_keys.save_point()
        batches, schedules = self.batches, self.schedules
        limits, journal = self.limits, self._journal.save_point()
        totals = self.enqueued_total, self.completed_total, self.dead_total, self.cancelled_total
        try:
            return operation(self)
        except BaseException:
            self._table.roll_back(save_point)
            if journal != self._journal.save_point() or limits is not self.limits:
                self._journal.roll_back(journal)
                self._go_by(limits)
            self.sequence, self.changes, self.size = sequence, changes, size
            self.backlog, self.loads = backlog, loads
            self.batches, self.schedules = batches, schedules
            self.ledger.cut(finished)
            self.kept_keys.roll_back(kept_keys)
            del self.dropped[dropped:]
            self.enqueued_total, self.completed_total, self.dead_total, self.cancelled_total = totals
            raise
