"""What queue.json knows of brokers and their clients: who leads, and which batch was applied."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from bucketq import (
    ClaimLostError,
    Job,
    JobNotFoundError,
    OutcomeUnknownError,
    QueueState,
    ScheduleNotFoundError,
)
from bucketq.codec import decode, encode
from bucketq.election import Election, LeaderWatch
from bucketq.errors import SessionForgottenError
from bucketq.job import Claim, JobStatus
from bucketq.operation import (
    Ack,
    AckMany,
    Batch,
    Beat,
    Dequeue,
    Elect,
    Enqueue,
    Heartbeat,
    HeartbeatMany,
    Nack,
    RequeueSilent,
    StepDown,
)
from bucketq.operation.schedules import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.schedule import new_schedule
from bucketq.sessions import SESSIONS_MAX

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def job(number):
    return Job(id=f"job-{number}", entrypoint="mail", payload=b"{}", created_at=NOW)


def elect(state, broker, stale=None):
    return state.apply(Elect(broker, f"{broker}:7420", stale, NOW))


def test_the_first_candidate_leads_and_others_learn_who():
    state = QueueState()
    outcome, first = elect(state, "a")
    assert outcome is Election.ELECTED
    outcome, again = elect(state, "a")
    assert (outcome, again.epoch) == (Election.ALREADY_LEADER, 1)
    assert again.beat_at > first.beat_at, "whoever waits can see that it is there again"
    assert elect(state, "b", first).outcome is Election.OTHER_LEADER
    outcome, leader = elect(state, "b")
    assert (outcome, leader.broker, leader.address, leader.epoch) == (Election.OTHER_LEADER, "a", "a:7420", 1)


def test_a_leader_whose_heart_stands_still_is_followed_and_learns_it_with_its_next_beat():
    state = QueueState()
    stale = elect(state, "a").leader
    outcome, leader = elect(state, "b", stale)
    assert (outcome, leader.epoch) == (Election.ELECTED, 2)
    assert state.apply(Beat("a", NOW)) == leader, "the beat of one who does not lead changes nothing"


def test_a_leader_that_beat_since_it_was_seen_is_not_followed():
    state = QueueState()
    stale = elect(state, "a").leader
    # Even if its clock stands still, or runs backwards.
    state.apply(Beat("a", NOW - timedelta(days=1)))
    assert elect(state, "b", stale).outcome is Election.OTHER_LEADER


def test_one_who_steps_down_is_followed_at_once_and_epochs_never_come_back():
    state = QueueState()
    elect(state, "a")
    state.apply(StepDown("b"))
    assert state.leader.broker == "a"
    state.apply(StepDown("a"))
    state.stamp("writer", 1)
    state = decode(encode(state))
    assert state.leader is None
    assert elect(state, "b").leader.epoch == 2


def test_a_watch_goes_by_how_long_it_has_seen_the_same_beat():
    state, watch = QueueState(), LeaderWatch(10)
    elect(state, "a")
    watch.observe(state.leader, 100)
    assert watch.stale(109) is None
    state.apply(Beat("a", NOW))
    watch.observe(state.leader, 109)
    assert watch.stale(118) is None
    watch.observe(state.leader, 119)
    assert watch.stale(119) == state.leader


def batch(number, *operations, session="client", seen_version=0, now=NOW):
    return Batch(session, number, seen_version, operations, now)


def reread(state):
    """The state as another broker reads it."""
    state.stamp("writer", state.version)
    return decode(encode(state))


def test_a_batch_that_is_sent_again_changes_nothing_and_is_answered_the_same():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1), job(2), job(3)))))
    work = batch(
        2,
        Dequeue("mail", 2, "token", NOW),
        Ack(Claim("nobody"), NOW),
        AckMany((Claim("job-1", "token"), Claim("job-9")), NOW),
        HeartbeatMany((Heartbeat(Claim("job-2", "token"), NOW), Heartbeat(Claim("job-3", "token"), NOW))),
        Nack(Claim("job-2", "token"), "no", NOW),
        RequeueSilent(NOW, NOW),
        Enqueue((job(4),)),
    )
    first = state.apply(work)
    for again in (state, reread(state)):
        before = again.changes, again.stats
        told = again.apply(work)
        assert (again.changes, again.stats) == before
        claimed, refused, refusals, lost, given_back, requeued, added = told.answers
        assert claimed is None, "job-1 is finished, job-2 given back: no claim is left"
        assert isinstance(refused, JobNotFoundError)
        assert refused.job_id == "nobody"
        assert [error.job_id for error in refusals] == ["job-9"]
        assert [(error.job_id, type(error)) for error in lost] == [("job-3", ClaimLostError)]
        assert given_back.id == "job-2"
        assert requeued == 0
        assert [one.id for one in added] == ["job-4"]
    assert [one.id for one in first.answers[0]] == ["job-1", "job-2"]


def test_schedules_of_a_batch_that_is_sent_again_are_told_as_they_stand():
    state = QueueState()
    model = job(1)
    made = new_schedule("beat", model, {}, cron=None, tz="UTC", every=60, missed="last")
    work = batch(
        1,
        PutSchedule(made, NOW),
        ListSchedules(),
        RemoveSchedule("nobody"),
        PutSchedule(replace(made, name="brief"), NOW),
        RemoveSchedule("brief"),
    )
    first = state.apply(work).answers
    assert first[:2] == [made, [made]]
    state.fire(NOW + timedelta(minutes=1))
    for again in (state, reread(state)):
        before = again.changes
        put, listed, refused, brief, removed = again.apply(work).answers
        assert again.changes == before
        assert put.next_at == NOW + timedelta(minutes=2)
        assert listed == [put]
        assert isinstance(refused, ScheduleNotFoundError)
        assert (brief, removed) == (None, None)


def test_claims_of_a_batch_that_is_sent_again_are_still_held():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1), job(2)))))
    work = batch(2, Dequeue("mail", 1, "token", NOW), Dequeue("mail", 1, "other", NOW))
    [first, other] = state.apply(work).answers
    assert reread(state).apply(work).answers == [first, other]


def test_a_batch_that_changed_nothing_leaves_no_mark():
    state = QueueState()
    assert state.apply(batch(1, Dequeue(None, 1, "token", NOW))).answers == [[]]
    assert (state.changes, dict(state.sessions.marks)) == (0, {})


def test_each_operation_of_a_batch_stands_for_itself():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1),))))
    answers = state.apply(batch(2, Enqueue((job(2), job(1))), Enqueue((job(3),)))).answers
    assert isinstance(answers[0], Exception)
    assert [one.id for one in state.jobs] == ["job-1", "job-3"], "of the refused one nothing is left"


def test_a_lost_claim_is_told_again_as_a_lost_claim():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1),))))
    state.apply(batch(2, Dequeue(None, 1, "mine", NOW)))
    late = batch(3, Ack(Claim("job-1", "old"), NOW), Enqueue((job(2),)))
    [refused, _] = state.apply(late).answers
    [told, _] = reread(state).apply(late).answers
    assert isinstance(told, ClaimLostError)
    assert str(told) == str(refused)


def test_a_batch_from_before_the_last_one_is_not_applied():
    state = QueueState()
    state.apply(batch(2, Enqueue((job(1),))))
    with pytest.raises(OutcomeUnknownError):
        state.apply(batch(1, Enqueue((job(2),))))
    assert [one.id for one in state.jobs] == ["job-1"]


def test_a_client_whose_mark_may_be_forgotten_is_told_so(monkeypatch):
    monkeypatch.setattr("bucketq.sessions.SESSIONS_MIN", 1)
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1),)), session="old"))
    state.stamp("writer", 1)
    state.apply(batch(1, Enqueue((job(2),)), session="new", now=NOW + timedelta(hours=1)))
    assert list(state.sessions.marks) == ["new"]
    with pytest.raises(SessionForgottenError):
        state.apply(batch(1, Enqueue((job(1),)), session="old"))
    state.stamp("writer", 2)
    state.apply(batch(2, Enqueue((job(3),)), session="old", seen_version=state.version))
    assert state.stats.enqueued_total == 3


def test_there_is_a_bound_to_how_many_clients_are_remembered():
    state = QueueState()
    for number in range(SESSIONS_MAX + 10):
        state.remember(f"client-{number}", 1, {}, NOW)
    assert len(state.sessions.marks) == SESSIONS_MAX
    assert "client-9" not in state.sessions.marks


def test_the_clock_of_one_broker_makes_nobody_forget():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1),)), session="old"))
    state.apply(batch(1, Enqueue((job(2),)), session="new", now=NOW + timedelta(days=1)))
    assert set(state.sessions.marks) == {"old", "new"}


def test_a_job_that_another_worker_has_by_now_is_told_without_its_token():
    state = QueueState()
    state.apply(batch(1, Enqueue((job(1),))))
    state.apply(batch(2, Dequeue(None, 1, "mine", NOW)))
    nack = batch(3, Nack(Claim("job-1", "mine"), "no", NOW))
    state.apply(nack)
    state.apply(batch(1, Dequeue(None, 1, "theirs", NOW), session="other"))
    [told] = state.apply(nack).answers
    assert (told.status, told.token) == (JobStatus.IN_PROGRESS, None), "its token is nobody else's business"
