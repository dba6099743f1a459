"""One seed, run and checked: the story of the promise that it broke, if it did."""

from tests.sim.checkers import check
from tests.sim.life import promises_of
from tests.sim.record import ViolationError
from tests.sim.story import tell
from tests.sim.world import simulate


def story_of(seed):
    """What went wrong with a seed, told; None if every promise was kept."""
    record = simulate(seed)
    try:
        check(record, promises_of(record.seed))
    except ViolationError as violation:
        return tell(record, violation)
    return None
