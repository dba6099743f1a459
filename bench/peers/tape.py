"""Tape: what producers and handlers say happened, a line each, in a file that survives whoever wrote it.

    sent  00000017 0000012345.678901     a producer is about to enqueue job 17
    acked 00000017 0000012345.679902     its queue has said that job 17 is in
    begun 00000017 0000012345.681903     a handler has begun with job 17
    ended 00000017 0000012345.701904     and is through with it

Each line is one `write` to a file that is opened for appending, so it is whole, whoever is killed when.
All have the same length: the size of the file tells how many there are. The clock is the machine's.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LINE_BYTES = len("sent  00000017 0000012345.678901\n")


class Event(NamedTuple):
    """Something that happened to a job, and when."""

    what: str
    number: int
    at_s: float


class Tape:
    """A file of events; any number of processes may write to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def note(self, what: str, number: int) -> None:
        """Say that something happened to a job, now."""
        os.write(self._file, f"{what:5} {number:08d} {time.monotonic():017.6f}\n".encode())

    def count(self) -> int:
        """How many events there are."""
        return os.fstat(self._file).st_size // LINE_BYTES

    def events(self) -> Iterator[Event]:
        """All events, in the order in which they were written."""
        for line in self.path.read_text().splitlines():
            what, number, at_s = line.split()
            yield Event(what, int(number), float(at_s))
