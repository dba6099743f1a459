"""Undo: an operation of several transitions lands whole, or not at all.

What a transition assigns to the state is put back as it was, whatever it is. What it changes in
place has a save point: the jobs in their table, batches, keys, buckets and turns in the journal, the
ledger, and a list that only grows.
"""

from collections.abc import Callable
from typing import Self, TypeVar

from bucketq.state.dispatch import WithDispatch

T = TypeVar("T")


class Undoable(WithDispatch):
    """Runs operations; one that raises leaves the state as it was."""

    def apply(self, operation: Callable[[Self], T]) -> T:
        """Run an operation; if it raises, the state is as it was before."""
        self._table.begin()
        self._journal.begin()
        return self.attempt(operation)

    def attempt(self, operation: Callable[[Self], T]) -> T:
        """Run a part of an operation; if it raises, the state is as it was before that part."""
        assigned = self.__dict__.copy()
        table, journal = self._table.save_point(), self._journal.save_point()
        ledger, dropped = self.ledger.save_point(), len(self.dropped)
        try:
            return operation(self)
        except BaseException:
            # What is parked with one dispatcher, another does not know of.
            has_new_dispatcher = self._dispatcher is not assigned["_dispatcher"]
            self.__dict__.update(assigned)
            self._table.roll_back(table)
            if has_new_dispatcher or journal != self._journal.save_point():
                self._journal.roll_back(journal)
                self._go_by(self.limits)
            self.ledger.roll_back(ledger)
            del self.dropped[dropped:]
            raise
