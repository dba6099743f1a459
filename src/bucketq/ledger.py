"""Ledger: the finished jobs on their way to the archive, and how many have arrived.

    finished ──seal──▶ sealed ──the object is created──▶ dropped, and counted by day
       │                ▲ └ name and content are fixed: whoever creates it, it is the same
       │                │
       │                └── stage: the lines of whole segments, in objects written before
       └ in queue.json since the commit that finished them

All of it is in queue.json, or named there, so a crash between any two steps loses nothing:
somebody else takes the next one.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from bucketq.archive_name import ArchiveName, day_of, hour_began, hour_of
from bucketq.errors import CorruptStateError
from bucketq.job import INTEGER_MAX, Count, is_within
from bucketq.object_name import StagedName

# It cannot stand within an id: there the quotes would be escaped.
_SECOND_FIELD = b',"entrypoint":'


class FinishedLine(msgspec.Struct, frozen=True, gc=False):
    """A finished job as its line in the archive, and when it finished."""

    finished_at: datetime
    line: bytes


class StagedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object with the lines of jobs that finished in one hour. It is written as the archive's are."""

    name: StagedName
    hour: str
    count: Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
    size: Count
    # The beginnings of its smallest and its largest job id.
    ids: tuple[str, str]

    def __post_init__(self) -> None:
        if hour_of(hour_began(self.hour)) != self.hour:
            raise ValueError(f"{self.hour!r} is no hour")

    def may_hold(self, job_id: str) -> bool:
        """False if the job is certainly not in it."""
        return is_within(self.ids, job_id)

    def lines(self, content: bytes) -> list[bytes]:
        """The lines of its object. Raises CorruptStateError if that is not whole."""
        # Counted first: many short lines would take much more memory than the content.
        is_as_told = len(content) == self.size and content.count(b",\n") + 1 == self.count
        lines = batch_lines(content) if is_as_told else None
        if lines is None:
            raise self.lost("it is not what queue.json says it is")
        return lines

    def lost(self, reason: str) -> CorruptStateError:
        """The error for one that cannot be read."""
        return CorruptStateError(
            f"{self.name}, with {self.count} completed jobs on their way to the archive, cannot be read:"
            f" {reason}. Restore the object from a backup or an older version. Nothing was changed."
        )


class SealedBatch(NamedTuple):
    """What an archive object will hold: lines, and after them those of the parts."""

    lines: tuple[bytes, ...] = ()
    parts: tuple[StagedPart, ...] = ()

    @property
    def total(self) -> int:
        """How many jobs it holds."""
        return len(self.lines) + sum(part.count for part in self.parts)


class Ledger:
    """`finished` only grows, until it is sealed. The mappings are replaced, never changed."""

    def __init__(
        self,
        finished: list[FinishedLine] | None = None,
        sealed: Mapping[str, SealedBatch] | None = None,
        archived: Mapping[str, int] | None = None,
        expired: Mapping[str, int] | None = None,
        expired_total: int = 0,
    ) -> None:
        self.finished = finished or []
        self.sealed = dict(sealed or {})
        self.archived = dict(archived or {})
        # Days whose objects are being removed, and all jobs that ever were.
        self.expired = dict(expired or {})
        self.expired_total = expired_total
        self.finished_size = sum(len(entry.line) for entry in self.finished)
        # When the first of those that are not sealed was finished.
        self.oldest = self._oldest_finished()
        self._sealed_size = sum(sum(map(len, batch.lines)) for batch in self.sealed.values())
        # The lines by their beginnings, of the batches that were sealed and the first of those that were not.
        self._index: dict[bytes, bytes] = {}
        self._indexed = 0
        self._indexed_sealed: Mapping[str, SealedBatch] = {}

    @property
    def size(self) -> int:
        """The bytes of all that is still here."""
        return self.finished_size + self._sealed_size

    def lines(self) -> Iterator[bytes]:
        """Every line that is still here, but for those in staged objects."""
        yield from (entry.line for entry in self.finished)
        yield from chain.from_iterable(batch.lines for batch in self.sealed.values())

    def line_of(self, beginning: bytes) -> bytes | None:
        """The line that begins so up to its entrypoint, if it is still here; not of staged objects."""
        if self._indexed_sealed is not self.sealed:
            self._index, self._indexed, self._indexed_sealed = {}, 0, self.sealed
            for batch in self.sealed.values():
                self._index.update((_beginning(line), line) for line in batch.lines)
        for entry in self.finished[self._indexed :]:
            self._index[_beginning(entry.line)] = entry.line
        self._indexed = len(self.finished)
        return self._index.get(beginning)

    def parts(self) -> Iterator[StagedPart]:
        """The staged objects."""
        return chain.from_iterable(batch.parts for batch in self.sealed.values())

    def add(self, finished_at: datetime, line: bytes) -> None:
        """Take in a job that is finished."""
        self.finished.append(FinishedLine(finished_at, line))
        self.finished_size += len(line)
        if self.oldest is None or finished_at < self.oldest:
            self.oldest = finished_at

    def stage(self, version: int, parts: Iterable[StagedPart]) -> None:
        """Let staged objects be parts of the batches of this version."""
        sealed = dict(self.sealed)
        for part in parts:
            name = str(ArchiveName(part.hour, version, version))
            before = sealed.get(name, SealedBatch())
            sealed[name] = before._replace(parts=(*before.parts, part))
        self.sealed = sealed

    def save_point(self) -> tuple[int, dict[str, SealedBatch]]:
        """Where `roll_back` can go back to."""
        return len(self.finished), self.sealed

    def roll_back(self, save_point: tuple[int, dict[str, SealedBatch]]) -> None:
        """Take back what was added, or staged, since a save point."""
        count, self.sealed = save_point
        if len(self.finished) > count:
            while len(self.finished) > count:
                line = self.finished.pop().line
                self.finished_size -= len(line)
                if self._indexed > len(self.finished):
                    self._index.pop(_beginning(line), None)
                    self._indexed -= 1
            self.oldest = self._oldest_finished()

    def seal(self, version: int) -> bool:
        """Fix what is finished as batches, one for each hour, of this version. False if there is nothing."""
        if not self.finished:
            return False
        hours: dict[str, list[bytes]] = {}
        for entry in self.finished:
            hours.setdefault(hour_of(entry.finished_at), []).append(entry.line)
        sealed = dict(self.sealed)
        for hour, lines in hours.items():
            name = str(ArchiveName(hour, version, version))
            # One commit may seal twice: when a batch's time is up, and when the next one is full.
            before = sealed.get(name, SealedBatch())
            sealed[name] = before._replace(lines=(*before.lines, *lines))
        self.sealed = sealed
        self._sealed_size += self.finished_size
        self.finished, self.finished_size, self.oldest = [], 0, None
        return True

    def is_older_than(self, moment: datetime) -> bool:
        """Whether a job has been waiting for a batch since before a time."""
        return self.oldest is not None and self.oldest <= moment

    def drop(self, name: str) -> bool:
        """Let go of a batch whose object is there, and count its jobs. False if that was done before."""
        if name not in self.sealed:
            return False
        self._sealed_size -= sum(map(len, self.sealed[name].lines))
        day = day_of(name)
        self.archived = {**self.archived, day: self.archived.get(day, 0) + self.sealed[name].total}
        self.sealed = {other: batch for other, batch in self.sealed.items() if other != name}
        return True

    def expire(self, day: str) -> bool:
        """Count a day out, before its objects are removed. False if there is no such day."""
        if day not in self.archived:
            return False
        count = self.archived[day]
        self.archived = {other: kept for other, kept in self.archived.items() if other != day}
        self.expired = {**self.expired, day: self.expired.get(day, 0) + count}
        self.expired_total += count
        return True

    def forget(self, day: str) -> bool:
        """The objects of an expired day are removed. False if that was noted before."""
        if day not in self.expired:
            return False
        self.expired = {other: count for other, count in self.expired.items() if other != day}
        return True

    def _oldest_finished(self) -> datetime | None:
        return min((entry.finished_at for entry in self.finished), default=None)


def batch_content(lines: Iterable[bytes]) -> bytes:
    """The content of an archive object: a JSON array, one job a line."""
    return b"[\n" + b",\n".join(lines) + b"\n]\n"


def batch_lines(content: bytes) -> list[bytes] | None:
    """The lines of an archive object; None if it is not whole.

    >>> batch_lines(batch_content([b"{}", b"{}"])), batch_lines(b"[\\n{}")
    ([b'{}', b'{}'], None)
    """
    is_whole = content.startswith(b"[\n") and content.endswith(b"\n]\n")
    return content[2:-3].split(b",\n") if is_whole else None


def _beginning(line: bytes) -> bytes:
    return line[: line.find(_SECOND_FIELD) + 1]
