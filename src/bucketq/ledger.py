"""Ledger: the finished jobs on their way to the archive, and how many have arrived.

    finished ──seal──▶ sealed ──the object is created──▶ dropped, and counted by day
       │                  └ name and content are fixed: whoever creates it, it is the same
       └ in queue.json since the commit that finished them

All of it is in queue.json, so a crash between any two steps loses nothing: somebody else
takes the next one.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

import msgspec

from bucketq.archive_name import ArchiveName, day_of, hour_of


class FinishedLine(msgspec.Struct, frozen=True, gc=False):
    """A finished job as its line in the archive, and when it finished."""

    finished_at: datetime
    line: bytes


class Ledger:
    """`finished` only grows, until it is sealed. The mappings are replaced, never changed."""

    def __init__(
        self,
        finished: list[FinishedLine] | None = None,
        sealed: Mapping[str, tuple[bytes, ...]] | None = None,
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
        self._oldest = self._oldest_finished()
        self._sealed_size = sum(sum(map(len, lines)) for lines in self.sealed.values())

    @property
    def size(self) -> int:
        """The bytes of all that is still here."""
        return self.finished_size + self._sealed_size

    def lines(self) -> Iterator[bytes]:
        """Every line that is still here."""
        yield from (entry.line for entry in self.finished)
        yield from chain.from_iterable(self.sealed.values())

    def add(self, finished_at: datetime, line: bytes) -> None:
        """Take in a job that is finished."""
        self.finished.append(FinishedLine(finished_at, line))
        self.finished_size += len(line)
        if self._oldest is None or finished_at < self._oldest:
            self._oldest = finished_at

    def cut(self, count: int) -> None:
        """Take back what was added beyond a number of finished jobs."""
        if len(self.finished) > count:
            while len(self.finished) > count:
                self.finished_size -= len(self.finished.pop().line)
            self._oldest = self._oldest_finished()

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
            sealed[name] = (*sealed.get(name, ()), *lines)
        self.sealed = sealed
        self._sealed_size += self.finished_size
        self.finished, self.finished_size, self._oldest = [], 0, None
        return True

    def is_older_than(self, moment: datetime) -> bool:
        """Whether a job has been waiting for a batch since before a time."""
        return self._oldest is not None and self._oldest <= moment

    def drop(self, name: str) -> bool:
        """Let go of a batch whose object is there, and count its jobs. False if that was done before."""
        if name not in self.sealed:
            return False
        self._sealed_size -= sum(map(len, self.sealed[name]))
        day = day_of(name)
        self.archived = {**self.archived, day: self.archived.get(day, 0) + len(self.sealed[name])}
        self.sealed = {other: lines for other, lines in self.sealed.items() if other != name}
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


def batch_content(lines: tuple[bytes, ...]) -> bytes:
    """The content of an archive object: a JSON array, one job a line."""
    return b"[\n" + b",\n".join(lines) + b"\n]\n"
