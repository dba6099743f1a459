"""Retry: the waits that policies and backoffs decide on, at their ends too."""

from datetime import UTC, datetime

import pytest

from bucketq import ConfigurationError, Job
from bucketq.retry import Backoff, Failure, GiveUp, Retry, decide, exponential, fixed

JOB = Job(id="1", entrypoint="mail", created_at=datetime(2026, 1, 1, tzinfo=UTC))


def wait_s(policy, number, chance=0.0):
    return policy(Failure(JOB, number, "no", chance=chance)).after_s


def test_a_fixed_wait_is_the_same_after_each_failure():
    assert [wait_s(fixed(7), number) for number in (1, 2, 50)] == [7, 7, 7]


def test_an_exponential_wait_grows_by_its_factor_up_to_its_cap():
    assert [wait_s(exponential(10), number) for number in (1, 2, 3)] == [10, 20, 40]
    assert [wait_s(exponential(1, factor=3, cap_s=20), number) for number in (1, 2, 3, 4)] == [1, 3, 9, 20]
    assert wait_s(exponential(), 100_000) == 3600, "a power that no number holds"


def test_the_share_that_is_left_to_chance_only_shortens_the_wait():
    assert wait_s(exponential(10, jitter=0.5), 1, chance=1.0) == 5
    assert wait_s(exponential(10, jitter=0.5), 1, chance=0.5) == 7.5
    assert wait_s(exponential(10, jitter=0), 1, chance=1.0) == 10


@pytest.mark.parametrize(
    "wrong", [{"first_s": -1}, {"factor": 0.5}, {"cap_s": -1}, {"jitter": 1.1}, {"jitter": -0.1}]
)
def test_waits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="exponential"):
        exponential(**wrong)


def test_a_policy_gives_a_decision_and_nothing_else():
    failure = Failure(JOB, 1, "no")
    assert decide(lambda failure: GiveUp(), failure) == GiveUp()
    assert decide(lambda failure: Retry(3 * failure.number), failure) == Retry(3)
    with pytest.raises(ConfigurationError, match="not 5"):
        decide(lambda failure: 5, failure)
    with pytest.raises(ConfigurationError, match="not 7"):
        decide(7, failure)


@pytest.mark.parametrize(("is_exponential", "waits_s"), [(True, [1, 2, 4, 5, 5]), (False, [1, 2, 3, 4, 5])])
def test_a_backoff_grows_to_its_cap_and_leaves_half_to_chance(is_exponential, waits_s):
    backoff = Backoff(first_s=1, cap_s=5, exponential=is_exponential)
    assert [backoff.delay_s(attempt, jitter=1) for attempt in range(5)] == waits_s
    assert [backoff.delay_s(attempt, jitter=0) for attempt in range(5)] == [wait / 2 for wait in waits_s]
    assert backoff.delay_s(10**6, jitter=1) == 5
