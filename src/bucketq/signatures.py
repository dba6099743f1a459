"""Signatures: the last commit of each recent writer, so that one whose answer got lost can find out.

A writer numbers its commits and signs each in the state that it writes. When it reads that back, or
a later state, it sees whether its commit has landed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bucketq.job import Count

# More writers than collide at the same time.
WRITERS_MAX = 64


class Signature(NamedTuple):
    """The last commit of a writer, and the version of the state that it made."""

    number: Count
    version: Count


class Signatures:
    """Signatures by writer, the one that signed longest ago first."""

    def __init__(self, writers: Mapping[str, Signature] | None = None, forgotten_version: int = 0) -> None:
        self._writers = dict(writers or {})
        # Signatures up to this version may have been dropped.
        self.forgotten_version = forgotten_version

    @property
    def writers(self) -> Mapping[str, Signature]:
        """All signatures, to be looked at."""
        return self._writers

    def sign(self, writer: str, number: int, version: int) -> None:
        """Sign a version by a writer's commit number. Those of long gone writers are dropped."""
        self._writers.pop(writer, None)
        self._writers[writer] = Signature(number, version)
        while len(self._writers) > WRITERS_MAX:
            oldest = next(iter(self._writers))
            self.forgotten_version = self._writers.pop(oldest).version

    def holds(self, writer: str, number: int) -> bool:
        """Whether that commit of that writer is in the state."""
        signature = self._writers.get(writer)
        return signature is not None and signature.number == number
