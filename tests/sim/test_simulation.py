"""The simulator over a fixed set of seeds and some fresh ones, and the mutants it must catch."""

import random

import pytest
from checkers import check
from life import promises_of
from mutants import MUTANTS
from record import ViolationError
from story import tell
from world import simulate

FIXED = range(240)
# Odd ones from 1000 on are about the life of jobs.
LIFE = range(1001, 1081, 2)
FRESH = 40
CHUNK = 20
MUTANT_SEEDS = 200


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("CRITICAL")


def keep_promises(seeds):
    for seed in seeds:
        if story := story_of(seed):
            pytest.fail(f"make sim SEED={seed}\n{story}", pytrace=False)


@pytest.mark.parametrize("first", FIXED[::CHUNK])
def test_fixed_seeds(first):
    keep_promises(range(first, first + CHUNK))


@pytest.mark.parametrize("first", LIFE[::CHUNK])
def test_seeds_about_the_life_of_jobs(first):
    keep_promises(range(first, first + 2 * CHUNK, 2))


def test_fresh_seeds():
    start = random.randrange(1_000_000_000)
    print(f"fresh seeds from {start}")
    keep_promises(range(start, start + FRESH))


def test_a_seed_repeats_to_the_byte():
    assert simulate(7).digest() == simulate(7).digest()
    assert simulate(7).digest() != simulate(8).digest()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake.split(":")[0])
def test_every_mutant_is_caught(mutant):
    with mutant.at_work():
        story = next(
            filter(None, map(story_of, range(mutant.first_seed, mutant.first_seed + MUTANT_SEEDS))), None
        )
    assert story, f"the simulator does not see this mistake: {mutant.mistake}"
    assert story.startswith("seed ")


def story_of(seed):
    record = simulate(seed)
    try:
        check(record, promises_of(record.seed))
    except ViolationError as violation:
        return tell(record, violation)
    return None
