"""The watch judges silence by its own monotonic clock, never by time stamps."""

from datetime import UTC, datetime, timedelta

from bucketq import Job, QueueState
from bucketq.job import Claim
from bucketq.stale import StaleWatch

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def running():
    state = QueueState()
    state.enqueue(Job(id="a", entrypoint="mail", created_at=LONG_AGO))
    return state, state.dequeue(None, "t", LONG_AGO)


def test_an_old_time_stamp_alone_makes_no_job_stale():
    state, job = running()
    watch = StaleWatch(stale_after_s=10)
    watch.observe(state, ["a"], now_s=1000)
    assert watch.stale(state, now_s=1009) == []
    assert watch.stale(state, now_s=1010) == [job]


def test_a_stale_job_stays_due_until_it_was_taken():
    state, job = running()
    watch = StaleWatch(stale_after_s=10)
    watch.observe(state, ["a"], now_s=0)
    assert watch.stale(state, now_s=10) == [job]
    assert watch.stale(state, now_s=11) == [job]
    state.requeue_stale(Claim.of(job), LONG_AGO)
    assert watch.stale(state, now_s=12) == []


def test_every_seen_change_of_the_heartbeat_starts_the_time_again():
    state, job = running()
    watch = StaleWatch(stale_after_s=10)
    watch.observe(state, ["a"], now_s=0)
    state.heartbeat(Claim.of(job), LONG_AGO + timedelta(seconds=1))
    watch.observe_all(state, now_s=8)
    watch.observe_all(state, now_s=9)
    assert watch.stale(state, now_s=17) == []
    assert len(watch.stale(state, now_s=18)) == 1


def test_finished_jobs_leave_nothing_behind():
    state = QueueState()
    watch = StaleWatch(stale_after_s=10)
    for number in range(1000):
        state.enqueue(Job(id=str(number), entrypoint="mail", created_at=LONG_AGO))
        job = state.dequeue(None, "t", LONG_AGO)
        watch.observe(state, [job.id], now_s=0)
        state.ack(Claim.of(job), LONG_AGO)
        watch.observe(state, [job.id], now_s=0)
    assert len(watch._beats) == 0
    assert len(watch._due) < 100


def test_the_age_of_a_heartbeat_is_known_only_for_the_one_last_seen():
    state, job = running()
    watch = StaleWatch(stale_after_s=10)
    assert watch.age_s(job, now_s=5) is None
    watch.observe(state, ["a"], now_s=5)
    assert watch.age_s(job, now_s=7) == 2
    state.heartbeat(Claim.of(job), LONG_AGO)
    assert watch.age_s(state.find("a"), now_s=7) is None


def test_finished_jobs_with_a_timeout_leave_nothing_behind():
    state = QueueState()
    watch = StaleWatch(stale_after_s=10)
    for number in range(1000):
        state.enqueue(Job(id=str(number), entrypoint="mail", timeout_s=5.0, created_at=LONG_AGO))
        job = state.dequeue(None, "t", LONG_AGO)
        watch.observe(state, [job.id], now_s=0)
        state.ack(Claim.of(job), LONG_AGO)
        watch.observe(state, [job.id], now_s=0)
    assert len(watch.timeouts._until) == 0
    assert len(watch.timeouts._due) < 100


def test_heartbeats_do_not_prolong_a_timeout_but_another_claim_begins_anew():
    state = QueueState()
    state.enqueue(Job(id="a", entrypoint="mail", timeout_s=5.0, created_at=LONG_AGO))
    job = state.dequeue(None, "t", LONG_AGO)
    watch = StaleWatch(stale_after_s=10)
    watch.observe_all(state, now_s=0)
    state.heartbeat(Claim.of(job), LONG_AGO)
    watch.observe_all(state, now_s=3)
    assert watch.timeouts.over(state, now_s=4) == []
    assert [one.id for one in watch.timeouts.over(state, now_s=5)] == ["a"]
    assert len(watch.timeouts.over(state, now_s=6)) == 1, "until the state shows that it was ended"
    state.time_out(Claim.of(job), LONG_AGO)
    state.dequeue(None, "u", LONG_AGO)
    watch.observe_all(state, now_s=6)
    assert watch.timeouts.over(state, now_s=10) == []
    assert len(watch.timeouts.over(state, now_s=11)) == 1


def test_time_in_which_the_watch_was_blind_is_held_against_nobody():
    state, job = running()
    watch = StaleWatch(stale_after_s=10)
    watch.excuse(3)
    watch.observe(state, ["a"], now_s=0)
    watch.excuse(100)
    assert watch.stale(state, now_s=105) == []
    # The heartbeat is as old as it is, and the next one must not wait.
    assert watch.age_s(job, now_s=105) == 105
    # Its timeout, the outage, and the time to be heard again.
    assert watch.stale(state, now_s=119) == []
    assert watch.stale(state, now_s=120) == [job]
