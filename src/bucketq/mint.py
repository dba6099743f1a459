"""Mint: the one place where ids come from, so that a test can replay them."""

import os
import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import eq
from typing import overload

ID_DIGITS_COUNTED = 5

_of_this_process = random.Random()
# Two processes that inherit one generator would mint the same ids.
os.register_at_fork(after_in_child=_of_this_process.seed)


class JobIds(Sequence[str]):
    """Job ids in the order of their jobs; a million take hardly more memory than one."""

    def __init__(self) -> None:
        # Runs of ids that follow each other: the first one, and how many there are.
        self._runs: list[tuple[int, int]] = []
        self._count = 0

    def begin(self, first: int) -> None:
        """Let the next ids count from here."""
        self._runs.append((first, 0))

    def mint(self) -> str:
        """Add the next id and return it."""
        first, count = self._runs[-1]
        self._runs[-1] = first, count + 1
        self._count += 1
        return _spelt(first + count)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __repr__(self) -> str:
        return f"<{len(self)} job ids, from {self[0]} to {self[-1]}>" if self else "<no job ids>"

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        left = index + len(self) if index < 0 else index
        if left >= 0:
            for first, count in self._runs:
                if left < count:
                    return _spelt(first + left)
                left -= count
        raise IndexError(f"there are {len(self)} ids, no number {index}")

    def __iter__(self) -> Iterator[str]:
        for first, count in self._runs:
            yield from map(_spelt, range(first, first + count))


class Mint:
    """Makes job ids (UUIDv7: they sort by time), claim tokens and writer ids."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source

    @property
    def _random(self) -> random.Random:
        # Looked up, not kept: a copy of the generator, say by pickle, would mint the same ids.
        return self._source or _of_this_process

    def job_id(self, now: datetime) -> str:
        """A new UUIDv7."""
        return _spelt(self.first_id(now))

    def first_id(self, now: datetime) -> int:
        """A new UUIDv7 as a number, after which as many are free as can be counted."""
        now_ms = int(now.timestamp() * 1000)
        bits = self._random.getrandbits(73)
        # The highest of the last 62 bits is left 0, to be counted into.
        return now_ms << 80 | 0x7 << 76 | (bits >> 61) << 64 | 0x2 << 62 | bits & (1 << 61) - 1

    def id_beginning(self, now: datetime) -> str:
        """A new UUIDv7 without its last five digits, which are left to be counted."""
        return _spelt(self.first_id(now))[:-ID_DIGITS_COUNTED]

    def token(self) -> str:
        """Sixteen hexadecimal digits that nobody else has."""
        return f"{self._random.getrandbits(64):016x}"

    def jitter(self) -> float:
        """A number from 0 to 1, to keep writers that collided from colliding again."""
        return self._random.random()


def _spelt(value: int) -> str:
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def time_of(job_id: str) -> datetime | None:
    """When a job id was made, to the millisecond, or None if it is no UUIDv7.

    >>> time_of("019b76da-a800-7a06-9c99-d2955c30ed8a")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        value = uuid.UUID(job_id)
        return datetime.fromtimestamp((value.int >> 80) / 1000, UTC) if value.version == 7 else None
    except (ValueError, OverflowError):
        return None
