"""Chores: the operations that keep a queue small and its archive in order.

They are values like all operations, but no caller asks for them.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec

from bucketq.job import Job
from bucketq.segment import Key, Segment
from bucketq.state import QueueState
from bucketq.state.backlog import WaitingPart


class Spill(msgspec.Struct, frozen=True, gc=False):
    """Let segments stand for waiting jobs; tell which are not taken in."""

    parts: tuple[tuple[Segment, tuple[Job, ...]], ...]

    def __call__(self, state: QueueState) -> list[Segment]:
        return state.spill(self.parts)


class Merge(msgspec.Struct, frozen=True, gc=False):
    """Let segments stand for others with the same jobs; tell which are not taken in."""

    old: tuple[Segment, ...]
    new: tuple[Segment, ...]

    def __call__(self, state: QueueState) -> list[Segment]:
        return [] if state.merge(self.old, self.new) else list(self.new)


class SortOut(msgspec.Struct, frozen=True, gc=False):
    """Let segments of waiting jobs stand for the due jobs of a scheduled one; return those not taken in."""

    old: Segment
    waiting: tuple[WaitingPart, ...]
    rest: tuple[Segment, ...]
    # Of each new segment, where its jobs stood in the old one.
    places: tuple[tuple[Key, ...], ...] = ()

    @property
    def new(self) -> tuple[Segment, ...]:
        """All segments that were written for it."""
        return (*(part.segment for part in self.waiting), *self.rest)

    def __call__(self, state: QueueState) -> list[Segment]:
        return state.sort_out(self.old, self.waiting, self.rest, self.places)


class Seal(msgspec.Struct, frozen=True, gc=False):
    """Fix what is finished as batches for the archive, however little, if some is from before a time."""

    before: datetime

    def __call__(self, state: QueueState) -> None:
        if state.ledger.is_older_than(self.before):
            state.seal()


class DropArchived(msgspec.Struct, frozen=True, gc=False):
    """Let go of batches whose objects are in the archive."""

    names: tuple[str, ...]

    def __call__(self, state: QueueState) -> None:
        for name in self.names:
            state.drop_archived(name)


class Expire(msgspec.Struct, frozen=True, gc=False):
    """Count the archived jobs of days out, before their objects are removed."""

    days: tuple[str, ...]

    def __call__(self, state: QueueState) -> None:
        for day in self.days:
            state.expire(day)


class ForgetExpired(msgspec.Struct, frozen=True, gc=False):
    """Note that the objects of expired days are removed."""

    days: tuple[str, ...]

    def __call__(self, state: QueueState) -> None:
        for day in self.days:
            state.forget_expired(day)


class LedgerView(NamedTuple):
    """At a version: sealed batches by name, the days of the archive, and the days that are being removed."""

    version: int
    sealed: frozenset[str]
    days: tuple[str, ...]
    expired: tuple[str, ...]


class ReadLedger(msgspec.Struct, frozen=True, gc=False):
    """Tell what is on its way to the archive, and what has arrived."""

    def __call__(self, state: QueueState) -> LedgerView:
        ledger = state.ledger
        days, expired = tuple(sorted(ledger.archived)), tuple(ledger.expired)
        return LedgerView(state.version, frozenset(ledger.sealed), days, expired)


class References(NamedTuple):
    """What a queue of this version refers to: objects by name, and segments whose jobs refer to payloads."""

    version: int
    names: set[str]
    segments: list[Segment]


class Collect(msgspec.Struct, frozen=True, gc=False):
    """Let nobody begin to refer to an object from before a version; tell what is referred to."""

    version: int

    def __call__(self, state: QueueState) -> References:
        state.collect(self.version)
        segments = [segment for segment in state.backlog if segment.payloads]
        return References(state.version, state.object_names(), segments)
