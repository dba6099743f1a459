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


def test_what_was_too_much_is_not_tried_again_at_once():
    pace = Pace(0.0)
    landed, refused = 0, 0
    while landed < 200:
        if pace.interval_s < 1.0:
            pace.slow_down()
            refused += 1
        else:
            pace.landed()
            landed += 1
            assert landed < 10 or pace.interval_s < 1.2
    assert refused <= 5 + 200 / 20
