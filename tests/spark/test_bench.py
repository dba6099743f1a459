"""The benchmark measures Spark; what it counts is exact, and its speeds are not looked at."""

import pytest

from bench import fleet, sparking

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark tables")]


def test_source_and_sink_are_measured(lasting, tmp_path):
    found = {one.name: one for one in sparking.measure(tmp_path, sparking.Amount().shortened())}
    assert len(found) == 5
    assert all(one.deep > 0 for one in found.values())
    assert found["bytes read of a day, all of it and by one-hour options"].is_met
    assert found["rows of two streams at once, and the different jobs they made"].is_met


def test_fleets_are_measured(lasting, tmp_path):
    assert [one.deep > 0 for one in fleet.measure(tmp_path, fleet.Amount().shortened())] == [True] * 4
