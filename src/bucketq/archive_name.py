"""The names of archive objects, and which of them a reader needs.

    archive/2026-02-15T10/000000000123.json                  one batch
    archive/2026-02-15T10/000000000123-000000000456.json     several, compacted into one

A batch is known by the UTC hour in which its jobs finished and by the version of the queue
that sealed it. A compacted object holds every batch of its hour from its first version to
its last, and each of its lines says which batch it is of. So the names alone tell where each
batch is to be read, once, even if an object that was compacted has not been deleted yet, or
was written again by a latecomer: readers take a piece each, and no two pieces overlap.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

ARCHIVE = "archive/"

_HOUR = "%Y-%m-%dT%H"
_HOUR_LONG, _LAST = timedelta(hours=1), datetime.max.replace(tzinfo=UTC)
_NAME = re.compile(r"archive/(\d{4}-\d\d-\d\dT\d\d)/(\d{12})(?:-(\d{12}))?\.json")


class ArchiveName(NamedTuple):
    """The parts of a name: the hour, and the first and the last version that it stands for."""

    hour: str
    first: int
    last: int

    def __str__(self) -> str:
        versions = f"{self.first:012}" if self.first == self.last else f"{self.first:012}-{self.last:012}"
        return f"{ARCHIVE}{self.hour}/{versions}.json"

    @classmethod
    def parse(cls, name: str) -> "ArchiveName | None":
        """The parts of a name, or None if it is no archive object's.

        >>> ArchiveName.parse("archive/2026-02-15T10/000000000123.json")
        ArchiveName(hour='2026-02-15T10', first=123, last=123)
        """
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        hour, first, last = found.groups()
        return cls(hour, int(first), int(last or first))

    def covers(self, other: "ArchiveName") -> bool:
        """Whether all that the other holds is in this one."""
        return self.hour == other.hour and self.first <= other.first and other.last <= self.last


class Piece(NamedTuple):
    """Some batches of an hour, by version, and the object that holds them."""

    name: ArchiveName
    first: int
    last: int
    # Those in between that are to be read elsewhere.
    without: frozenset[int] = frozenset()
    # The bytes of the whole object.
    size: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is all that the object holds."""
        return (self.first, self.last) == self.name[1:] and not self.without

    def has(self, batch: int) -> bool:
        """Whether a batch of its hour belongs to it."""
        return self.first <= batch <= self.last and batch not in self.without


def version_of_batch(name: str) -> int | None:
    """The version that sealed the batch of this name."""
    parsed = ArchiveName.parse(name)
    return parsed and parsed.first


def day_of(name: str) -> str:
    """The UTC day of anything in the archive.

    >>> day_of("archive/2026-02-15T10/payloads/1")
    '2026-02-15'
    """
    return name.removeprefix(ARCHIVE)[:10]


def hour_of(moment: datetime) -> str:
    """The UTC hour of a moment, as names spell it.

    >>> hour_of(datetime(2026, 2, 15, 10, 59, tzinfo=UTC))
    '2026-02-15T10'
    """
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return _spelt_hour(utc.year, utc.month, utc.day, utc.hour)


@lru_cache(100)
def _spelt_hour(year: int, month: int, day: int, hour: int) -> str:
    return f"{year:04}-{month:02}-{day:02}T{hour:02}"


def hour_began(hour: str) -> datetime:
    """When an hour began."""
    return datetime.strptime(hour, _HOUR).replace(tzinfo=UTC)


def hour_ended(hour: str) -> datetime:
    """When an hour ended."""
    began = hour_began(hour)
    return began + min(_HOUR_LONG, _LAST - began)


def arrived(sealed: Iterable[str], version: int) -> int:
    """The version up to which every batch is in the archive: none as old is still sealed at a version.

    >>> arrived(["archive/2026-02-15T10/000000000007.json"], 9), arrived([], 9)
    (6, 9)
    """
    on_their_way = (batch for name in sealed if (batch := version_of_batch(name)) is not None)
    return min(on_their_way, default=version + 1) - 1


def needed(names: Iterable[ArchiveName]) -> list[ArchiveName]:
    """The objects that hold every batch once, by hour and version; what others cover is left out."""
    chosen: list[ArchiveName] = []
    # The widest first among those that begin alike, so that one look back is enough.
    for name in sorted(set(names), key=lambda name: (name.hour, name.first, -name.last)):
        if not chosen or not chosen[-1].covers(name):
            chosen.append(name)
    return chosen


def pieces(
    sizes: Mapping[ArchiveName, int], first: int, last: int, without: Collection[ArchiveName] = ()
) -> list[Piece]:
    """What to read for every batch of these versions once, except for some.

    >>> both = {ArchiveName("2026-02-15T10", 1, 4): 800, ArchiveName("2026-02-15T10", 3, 9): 900}
    >>> [(piece.first, piece.last) for piece in pieces(both, 2, 8)]
    [(2, 4), (5, 8)]
    """
    chosen: list[Piece] = []
    hour, done = "", 0
    for name in needed(sizes):
        if name.hour != hour:
            hour, done = name.hour, first - 1
        held_back = frozenset(other.first for other in without if name.covers(other))
        piece = Piece(name, max(name.first, done + 1), min(name.last, last), held_back, sizes[name])
        if piece.first < piece.last or piece.has(piece.first):
            chosen.append(piece)
            done = piece.last
    return chosen
