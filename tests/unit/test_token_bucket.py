"""A token bucket: never more than the burst and the rate allow, and no less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq import ConfigurationError
from bucketq.token_bucket import TokenBucket


@given(
    per_s=st.floats(0.01, 1000),
    burst=st.integers(1, 20),
    pauses_s=st.lists(st.floats(0, 10), min_size=1, max_size=50),
)
def test_no_span_of_time_sees_more_than_it_may(per_s, burst, pauses_s):
    bucket, now_s, taken_s = TokenBucket(per_s, burst), 0.0, []
    for pause_s in pauses_s:
        now_s += pause_s
        while bucket.take(now_s):
            taken_s.append(now_s)
    for first, began_s in enumerate(taken_s):
        for last in range(first, len(taken_s)):
            allowed = burst + (taken_s[last] - began_s) * per_s
            assert last - first + 1 <= allowed + 0.001 * (last - first + 1)


@given(per_s=st.floats(0.01, 1000), burst=st.integers(1, 20), ahead=st.integers(0, 50))
def test_whoever_waits_as_long_as_told_gets_the_token(per_s, burst, ahead):
    bucket, now_s = TokenBucket(per_s, burst), 1000.0
    wait_s = bucket.wait_s(now_s, ahead + 1)
    for _ in range(ahead):
        now_s += bucket.wait_s(now_s)
        assert bucket.take(now_s)
    assert now_s <= 1000 + wait_s + 0.001
    assert bucket.take(1000 + wait_s + 1e-9)


@given(per_s=st.floats(0.01, 10_000), began_s=st.floats(0, 1e8))
def test_a_wait_is_long_enough_for_the_clock_to_move(per_s, began_s):
    bucket, now_s = TokenBucket(per_s, 1), began_s
    assert bucket.take(now_s)
    for _ in range(3):
        now_s += bucket.wait_s(now_s)
    assert bucket.take(now_s)


def test_a_clock_that_goes_back_brings_no_tokens():
    bucket = TokenBucket(per_s=1, burst=1)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)
    assert not bucket.take(100.5)
    assert bucket.take(101.0)


def test_a_second_fits_in_by_default():
    assert TokenBucket(0.5).burst == 1
    assert TokenBucket(20).burst == 20


@pytest.mark.parametrize(
    "numbers", [(0,), (-1,), (float("nan"),), (float("inf"),), (1, 0.5), (1, float("nan"))]
)
def test_numbers_that_make_no_sense_are_refused(numbers):
    with pytest.raises(ConfigurationError):
        TokenBucket(*numbers)
