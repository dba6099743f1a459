"""The commit interval widens while the storage complains, and comes back."""

from bucketq.pace import Pace


def test_slow_downs_widen_the_interval_up_to_a_limit():
    pace = Pace(0.0)
    for _ in range(50):
        pace.slow_down()
    assert pace.interval_s == 10.0


def test_landed_commits_bring_the_wanted_interval_back():
    for wanted_s in (0.0, 2.0):
        pace = Pace(wanted_s)
        pace.slow_down()
        assert pace.interval_s > wanted_s
        for _ in range(100):
            pace.landed()
        assert pace.interval_s == wanted_s
