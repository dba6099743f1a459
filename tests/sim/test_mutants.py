"""Does the simulator bite? Every known mistake must be seen."""

import pytest

from tests.sim.mutants import MUTANTS
from tests.sim.retold import story_of

SEEDS = 200


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("CRITICAL")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake.split(":")[0])
def test_every_mutant_is_caught(mutant):
    with mutant.at_work():
        seeds = range(mutant.first_seed, mutant.first_seed + SEEDS)
        story = next(filter(None, map(story_of, seeds)), None)
    assert story, f"the simulator does not see this mistake: {mutant.mistake}"
    assert story.startswith("seed ")
