"""Finding: one thing that was looked at, how it is, and what to do about it."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    # Good to know.
    NOTE = "note"
    # It works, but somebody should look at it.
    WARNING = "warning"
    # It does not work as it should, or jobs may be lost.
    PROBLEM = "problem"
    # It could not be looked at.
    FAILED = "failed"


class Finding(NamedTuple):
    """What was looked at, the level, what was found, and what to do, if there is something to do."""

    about: str
    level: Level
    found: str
    advice: str = ""


def exit_code(levels: set[Level]) -> int:
    """0 if all is well, 1 if there is a problem, 2 if something could not be looked at.

    >>> exit_code({Level.OK, Level.WARNING}), exit_code({Level.PROBLEM}), exit_code({Level.FAILED})
    (0, 1, 2)
    """
    if Level.FAILED in levels:
        return 2
    return 1 if Level.PROBLEM in levels else 0
