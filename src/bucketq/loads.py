"""Loads: which named bulk loads have landed, so that one that is repeated adds nothing twice.

Whoever loads names the load and numbers its parts, as a stream numbers its micro-batches. The
mark here was made by the very commit that took the jobs in.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from bucketq.errors import ConfigurationError
from bucketq.job import Whole

# More than run at the same time. One that has been silent for longer than the others may be
# forgotten, and would then be taken for a new one.
LOADS_MAX = 1000
# How the names of imports begin.
IMPORT = "import-"


class LoadMark(NamedTuple):
    """The last part of a load that has landed, and which stream, if any, it was of."""

    number: Whole
    query: str = ""


class Loads:
    """The marks of loads, the one that was used longest ago first. A value: a change makes a new one."""

    def __init__(self, marks: Mapping[str, LoadMark] | None = None) -> None:
        self.marks: Mapping[str, LoadMark] = marks or {}

    def has(self, name: str, mark: LoadMark) -> bool:
        """Whether this part of a load has landed.

        Raises ConfigurationError if that cannot be told: only the last part is ever repeated, and
        a stream that has lost its checkpoint counts from 0 again, with other rows.
        """
        last = self.marks.get(name)
        if last is None or mark.number > last.number:
            return False
        if mark == last:
            return True
        raise ConfigurationError(
            f"the load {name!r} has come to number {last.number} already, and this is number {mark.number}"
            f"{' of another query: was its checkpoint lost?' if mark.query != last.query else '.'}"
            " Which of its rows were enqueued cannot be told. Nothing was added; to add all of them, use"
            " another load_id."
        )

    def imports_seen(self) -> str:
        """A digest of how far every import has come: another one after each part that lands."""
        digest = blake2b(digest_size=16)
        for name in sorted(self.marks):
            if name.startswith(IMPORT):
                digest.update(b"%b %d\n" % (name.encode(), self.marks[name].number))
        return digest.hexdigest()

    def remembered(self, name: str, mark: LoadMark) -> "Loads":
        """These marks, and that a part of a load lands now."""
        marks = {other: kept for other, kept in self.marks.items() if other != name}
        marks[name] = mark
        if len(marks) > LOADS_MAX:
            del marks[next(iter(marks))]
        return Loads(marks)
