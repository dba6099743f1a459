"""Jobs that are too late, as the state machine sees them."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import Job, JobStatus, QueueState
from bucketq.job import Claim
from bucketq.operation import Dequeue

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def running():
    state = QueueState()
    state.enqueue(Job(id="a", entrypoint="mail", timeout_s=5.0, expires_at=NOW + 10 * SECOND, created_at=NOW))
    return state, Claim.of(state.dequeue(None, "t", NOW))


ENDINGS = {
    "fails": lambda state, claim, now: state.nack(claim, "no", now),
    "times out": lambda state, claim, now: state.time_out(claim, now),
    "falls silent": lambda state, claim, now: state.requeue_stale(claim, now),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_attempt_that_ends_too_late_for_another_is_the_last(ending):
    for late, status in ((9, JobStatus.QUEUED), (10, JobStatus.DEAD)):
        state, claim = running()
        ended = ENDINGS[ending](state, claim, NOW + late * SECOND)
        assert ended.status is status
        assert ended.error
        assert state.is_conserved()


def test_an_attempt_that_began_in_time_may_end_later():
    state, claim = running()
    state.ack(claim, NOW + 60 * SECOND)
    assert state.stats.completed_total == 1


def test_a_dequeue_that_fails_has_expired_nothing():
    state = QueueState()
    state.enqueue(Job(id="a", entrypoint="mail", expires_at=NOW, created_at=NOW))

    def dequeue_and_fail(state):
        assert Dequeue(None, 1, "t", NOW)(state) == []
        assert state.stats.cancelled_total == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        state.apply(dequeue_and_fail)
    assert (state.stats.cancelled_total, state.stats.queued) == (0, 1)
    assert state.is_conserved()


def test_of_very_many_expired_jobs_some_are_finished_and_the_rest_is_left_for_the_next_commit():
    state = QueueState()
    for number in range(1500):
        state.enqueue(Job(id=str(number), entrypoint="mail", expires_at=NOW, created_at=NOW))
    assert Dequeue(None, 1, "t", NOW)(state) is None
    assert state.stats.cancelled_total == 1000
    assert Dequeue(None, 1, "u", NOW)(state) == []
    assert (state.stats.cancelled_total, state.stats.queued) == (1500, 0)
