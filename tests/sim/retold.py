"""One seed, run and checked: the story of the promise that it broke, if it did."""

from checkers import check
from life import promises_of
from record import ViolationError
from story import tell
from world import simulate


def story_of(seed):
    """What went wrong with a seed, told; None if every promise was kept."""
    record = simulate(seed)
    try:
        check(record, promises_of(record.seed))
    except ViolationError as violation:
        return tell(record, violation)
    return None
