"""The state machine, one transition at a time, without asyncio or a clock."""

from datetime import timedelta

import pytest

from bucketq import ClaimLostError, JobNotFoundError, JobStatus, QueueState
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.loads import LoadMark
from bucketq.signatures import WRITERS_MAX
from tests.unit.states import NOW, filled, new


def test_lower_priority_numbers_come_first_then_first_in_first_out():
    state = filled(new("a", priority=1), new("b"), new("c", priority=-1), new("d"))
    served = [state.dequeue(None, "t", NOW).id for _ in range(4)]
    assert served == ["c", "b", "d", "a"]
    assert state.dequeue(None, "t", NOW) is None


def test_an_entrypoint_filter_keeps_the_order():
    state = filled(new("a", "x"), new("b", "y"), new("c", "x", priority=-1))
    assert state.dequeue("x", "t", NOW).id == "c"
    assert state.dequeue(None, "t", NOW).id == "a"
    assert state.dequeue("x", "t", NOW) is None
    assert state.dequeue("y", "t", NOW).id == "b"


def test_a_nacked_job_returns_to_its_place_in_line():
    state = filled(new("a"), new("b"))
    first = state.dequeue(None, "t", NOW)
    given_back = state.nack(Claim.of(first), "boom", NOW)
    assert (given_back.status, given_back.error, given_back.token) == (JobStatus.QUEUED, "boom", None)
    assert state.dequeue(None, "t", NOW).id == "a"


def test_a_job_is_dead_once_its_attempts_are_used_up():
    state = filled(new("a", max_attempts=2))
    for _ in range(2):
        job = state.dequeue(None, "t", NOW)
        state.nack(Claim.of(job), "boom", NOW)
    dead = state.find("a")
    assert (dead.status, dead.attempts, dead.error) == (JobStatus.DEAD, 2, "boom")
    assert state.dead_jobs() == (dead,)
    assert state.dequeue(None, "t", NOW) is None
    assert state.stats.dead_total == 1
    assert state.is_conserved()


def test_a_dying_worker_costs_no_attempt_but_one_that_kills_its_workers_is_dead():
    state = filled(new("a", max_attempts=2, max_crashes=2))
    state.requeue_stale(Claim.of(state.dequeue(None, "t", NOW)), NOW)
    state.nack(Claim.of(state.dequeue(None, "t", NOW)), "boom", NOW)
    job = state.find("a")
    assert (job.status, job.attempts, job.crashes, job.failures) == (JobStatus.QUEUED, 2, 1, 1)
    state.requeue_stale(Claim.of(state.dequeue(None, "t", NOW, "w-1")), NOW)
    dead = state.find("a")
    assert (dead.status, dead.crashes) == (JobStatus.DEAD, 2)
    assert "heartbeat" in dead.error
    assert [one.outcome for one in dead.history] == ["stale", "failed", "stale"], "the evidence"
    assert dead.history[-1].worker == "w-1"
    assert state.is_conserved()


def test_a_job_is_tried_again_later():
    state = filled(new("a"), new("b"))
    later = NOW + timedelta(minutes=5)
    state.nack(Claim.of(state.dequeue(None, "t", NOW)), "boom", NOW, later)
    assert (state.find("a").status, state.find("a").run_at) == (JobStatus.SCHEDULED, later)
    assert (state.stats.queued, state.stats.scheduled) == (1, 1)
    assert state.is_conserved()
    assert state.next_due() == later
    state.wake(later - timedelta(microseconds=1))
    assert [job.id for job in state.queued_jobs()] == ["b"]
    assert state.claimable("mail", later) == 2
    state.wake(later)
    assert [job.id for job in state.queued_jobs()] == ["a", "b"], "its place is that of its enqueueing"
    assert state.next_due() is None
    last = state.dequeue(None, "t", later)
    state.nack(Claim.of(last), "boom", later, later)
    assert state.find("a").status is JobStatus.QUEUED, "at once is at once"


def test_a_leaving_worker_costs_no_attempt_and_is_noted():
    state = filled(new("a", max_attempts=1))
    for _ in range(3):
        state.release(Claim.of(state.dequeue(None, "t", NOW, "w-1")), NOW)
    job = state.find("a")
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert {(one.outcome, one.worker) for one in job.history} == {("released", "w-1")}


def test_a_heartbeat_always_moves_the_stamp_even_if_the_clock_does_not():
    state = filled(new("a"))
    claim = Claim.of(state.dequeue(None, "t", NOW))
    state.heartbeat(claim, NOW - timedelta(hours=1))
    assert state.find("a").heartbeat_at > NOW


@pytest.mark.parametrize("act", ["ack", "nack", "heartbeat"])
def test_a_lost_claim_is_refused_and_undoes_nothing(act):
    state = filled(new("a"))
    lost = state.dequeue(None, "first", NOW)
    state.requeue_stale(Claim.of(lost), NOW)
    operation = {
        "ack": lambda claim: state.ack(claim, NOW),
        "nack": lambda claim: state.nack(claim, None, NOW),
        "heartbeat": lambda claim: state.heartbeat(claim, NOW),
    }[act]
    with pytest.raises(ClaimLostError, match="queued"):
        operation(Claim.of(lost))
    held = state.dequeue(None, "second", NOW)
    with pytest.raises(ClaimLostError, match="another worker"):
        operation(Claim.of(lost))
    assert state.find("a") == held


def test_an_id_stands_for_whoever_holds_the_job():
    state = filled(new("a"))
    state.dequeue(None, "t", NOW)
    state.ack(Claim("a"), NOW)
    assert state.find("a") is None
    with pytest.raises(JobNotFoundError) as refused:
        state.ack(Claim("a"), NOW)
    assert refused.value.job_id == "a"


def test_a_released_claim_costs_no_attempt():
    state = filled(new("a"))
    job = state.dequeue(None, "t", NOW)
    state.release(Claim.of(job))
    assert (state.find("a").attempts, state.find("a").status) == (0, JobStatus.QUEUED)
    assert state.find("a").history == (), "nobody ever worked on it"
    with pytest.raises(ClaimLostError):
        state.release(Claim.of(job))


def test_a_failed_operation_leaves_no_trace():
    state = filled(new("a"), new("b", "other"))
    job = state.dequeue(None, "t", NOW)
    before = state.jobs, state.stats, state.sequence, state.changes

    def several(state):
        state.enqueue(new("c"))
        state.dequeue("other", "t", NOW)
        state.ack(Claim.of(job), NOW)
        state.ack(Claim("nobody"), NOW)

    with pytest.raises(JobNotFoundError):
        state.apply(several)
    assert (state.jobs, state.stats, state.sequence, state.changes) == before
    assert state.dequeue("other", "t", NOW).id == "b"


def test_whatever_a_failed_operation_has_set_is_as_it_was():
    state = filled(new("a"), new("b"))
    before = dict(vars(state))

    def several(state):
        state.elect("broker", "here:1", None, NOW)
        state.collect(1)
        state.load("nightly", LoadMark(1))
        state.set_limits(state.limits.with_pause("mail"))
        with pytest.raises(JobNotFoundError):
            state.attempt(lambda state: state.ack(Claim("unknown"), NOW))
        raise KeyError

    with pytest.raises(KeyError):
        state.apply(several)
    changed = {name for name, value in vars(state).items() if value is not before[name]}
    assert changed == {"_dispatcher"}, "it is made anew from what is there"
    assert state.dequeue("mail", "t", NOW).id == "a"


def test_a_dispatcher_of_a_failed_operation_keeps_no_job_for_itself():
    state = filled(new("a", limit_key="k"), new("b", limit_key="k"))
    state.set_limits(Limits(limit_keys={"k": Limit(max_running=1)}))
    running = state.dequeue("mail", "t", NOW)

    def several(state):
        def pause(state):
            state.set_limits(state.limits.with_pause(None))
            raise KeyError

        with pytest.raises(KeyError):
            state.attempt(pause)
        assert state.dequeue("mail", "t", NOW) is None
        raise KeyError

    with pytest.raises(KeyError):
        state.apply(several)
    state.ack(Claim.of(running), NOW)
    assert state.dequeue("mail", "t", NOW).id == "b"


def test_what_jqueue_users_read_is_there():
    state = filled(new("a"), new("b", "other"))
    running = state.dequeue("mail", "t", NOW)
    assert [job.id for job in state.jobs] == ["a", "b"]
    assert [job.id for job in state.queued_jobs()] == ["b"]
    assert state.queued_jobs("mail") == ()
    assert state.in_progress_jobs() == (running,)
    assert state.find("nobody") is None
    assert state.version == 0


def test_the_counters_add_up_at_every_step():
    state = filled(*(new(str(number)) for number in range(4)))
    assert state.is_conserved()
    state.ack(Claim.of(state.dequeue(None, "t", NOW)), NOW)
    assert state.is_conserved()
    assert state.stats == (3, 0, 0, 4, 1, 0, 0, 0, 0)
    state.completed_total = 2
    assert not state.is_conserved()


def test_ready_jobs_are_found_after_many_claims_through_the_other_index():
    state = QueueState()
    for number in range(500):
        state.enqueue(new(str(number), "x" if number % 2 else "y"))
        assert state.dequeue("z", "t", NOW) is None
        if number == 0:
            assert state.dequeue("x", "t", NOW) is None
        assert state.dequeue(None, "t", NOW) is not None
    state.enqueue(new("last", "x", priority=-1))
    assert state.waiting("x") + state.waiting("y") == state.waiting() == state.stats.queued
    assert state.dequeue("x", "t", NOW).id == "last"
    assert all(len(heap) <= 2 * state.waiting() + 100 for heap in state._table.ready._heaps.values())


def test_a_commit_is_recognised_until_many_others_have_written():
    state = QueueState()
    state.stamp("me", 7)
    assert state.signatures.holds("me", 7)
    assert not state.signatures.holds("me", 8)
    for number in range(WRITERS_MAX - 1):
        state.stamp(f"other {number}", 1)
    assert state.signatures.holds("me", 7)
    assert state.signatures.forgotten_version == 0
    state.stamp("one more", 1)
    assert not state.signatures.holds("me", 7)
    assert state.signatures.forgotten_version == 1


def test_a_writer_that_writes_on_is_not_the_one_to_be_forgotten():
    state = QueueState()
    state.stamp("me", 1)
    for number in range(3 * WRITERS_MAX):
        state.stamp(f"other {number}", 1)
        state.stamp("me", number + 2)
    assert state.signatures.holds("me", 3 * WRITERS_MAX + 1)
    assert len(state.signatures.writers) == WRITERS_MAX
