"""Loads: which bulk loads have landed, so that one that is repeated adds nothing twice.

Whoever loads names the load and numbers its parts, as a stream numbers its micro-batches. The
mark here was made by the very commit that took the jobs in.
"""

from collections.abc import Mapping

# More than run at the same time. One that has been silent for longer than the others may be
# forgotten, and would then be taken for a new one.
LOADS_MAX = 1000


class Loads:
    """The number of the last part of each load, the one that was used longest ago first."""

    def __init__(self, marks: Mapping[str, int] | None = None) -> None:
        self._marks = dict(marks or {})

    @property
    def marks(self) -> Mapping[str, int]:
        """All marks, to be looked at."""
        return self._marks

    def has(self, name: str, number: int) -> bool:
        """Whether this part of a load has landed."""
        return self._marks.get(name, -1) >= number

    def remember(self, name: str, number: int) -> None:
        """Note that a part of a load lands now."""
        self._marks.pop(name, None)
        self._marks[name] = number
        if len(self._marks) > LOADS_MAX:
            del self._marks[next(iter(self._marks))]
