"""The commit interval widens while the storage complains, and comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq.pace import Pace


def test_slow_downs_widen_the_interval_up_to_a_limit():
    pace = Pace(0.0)
    for _ in range(50):
        pace.slow_down(1.0)
    assert pace.interval_s(1.0) == 10.0


@pytest.mark.parametrize("wanted_s", [0.0, 2.0])
def test_time_alone_brings_the_wanted_interval_back(wanted_s):
    pace = Pace(wanted_s)
    for _ in range(50):
        pace.slow_down(1.0)
    assert pace.interval_s(11.0) == 10.0
    assert pace.interval_s(41.0) == wanted_s


def test_what_was_too_much_is_not_tried_again_at_once():
    pace, now_s = Pace(0.0), 0.0
    landed, refused = 0, 0
    while landed < 200:
        if pace.interval_s(now_s) < 1.0:
            pace.slow_down(now_s)
            refused += 1
        else:
            pace.landed(now_s)
            landed += 1
        now_s += max(1.0, pace.interval_s(now_s))
    assert refused <= 5 + 200 / 10
    assert now_s < 1.3 * (landed + refused)


def test_commits_of_others_prove_what_the_storage_bears():
    pace = Pace(0.0)
    for _ in range(6):
        pace.slow_down(1.0)
    pace.others_landed(10, 3.0, 4.0)
    assert pace.interval_s(4.0) == 3.2, "a few prove nothing"
    pace.others_landed(60, 3.0, 4.0)
    assert pace.interval_s(4.0) == pytest.approx(0.05)


@given(
    st.floats(0.0, 60.0),
    st.lists(st.tuples(st.sampled_from(["slow", "landed", "others"]), st.floats(0.0, 100.0)), max_size=60),
)
def test_whatever_happened_the_interval_is_bounded_and_comes_back(wanted_s, events):
    pace, now_s = Pace(wanted_s), 0.0
    for event, later_s in events:
        now_s += later_s
        match event:
            case "slow":
                pace.slow_down(now_s)
            case "landed":
                pace.landed(now_s)
            case _:
                pace.others_landed(50, later_s, now_s)
        assert wanted_s <= pace.interval_s(now_s) <= max(10.0, wanted_s)
    assert pace.interval_s(now_s + 10 + 10 + 20) == wanted_s
