"""The words of `differences`: what each thing that can happen is called."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import Job, JobStatus, Settings
from bucketq.batches import JobBatch, NamedBatch
from bucketq.codec import decode, encode
from bucketq.difference import differences
from bucketq.election import Leader
from bucketq.job import Claim
from bucketq.limits import Limit
from bucketq.operation import Ack, Adopt, Bury, Crash, Dequeue, Enqueue, Heartbeat, Nack, Release
from bucketq.operation.limits import Pause, Resume, SetLimit
from bucketq.operation.schedules import Fire, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive
from bucketq.schedule import Schedule
from bucketq.state import QueueState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
HELD, WAITING, DEAD = Claim("held", "t"), "waiting", "dead"
POLL = Schedule(name="poll", every_s=60.0, job=Job(id="poll", entrypoint="mail", created_at=NOW))


def job(job_id, **fields):
    return Job(id=job_id, entrypoint="mail", created_at=NOW, **fields)


@pytest.fixture
def state():
    """A queue with a job that runs, one that waits, and a dead one."""
    state = QueueState()
    state.archives, state.settings = True, Settings()
    for job_id in ("dead", "held", "waiting"):
        state.apply(Enqueue((job(job_id),)))
    state.apply(Dequeue("mail", 1, "d", NOW, "web-1"))
    state.apply(Bury(Claim("dead", "d"), "no such mailbox", NOW))
    state.apply(Dequeue("mail", 1, "t", NOW, "web-3"))
    state.ledger.seal(1)
    return state


def told(state, *operations):
    """What is told of some operations: what, of whom, and how; without the counters."""
    before = decode(encode(state))
    for operation in operations:
        state.apply(operation)
    changes = differences(before, decode(encode(state)))
    return [(one.what, one.name, one.how) for one in changes if one.what != "counter"]


RETRY = "2026-01-01 12:01:30Z"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([Enqueue((job("new"),))], [("enqueued", "new", "queued")]),
        (
            [Enqueue((job("new", run_at=LATER, status=JobStatus.SCHEDULED),))],
            [("enqueued", "new", "scheduled for 2026-01-01 12:01:00Z")],
        ),
        ([Enqueue((job("new", after=("held",)),))], [("enqueued", "new", "blocked by 1")]),
        ([Dequeue("mail", 1, "u", LATER, "web-5")], [("claimed", "waiting", "by web-5, attempt 1")]),
        ([Ack(HELD, LATER)], [("completed", "held", "by web-3")]),
        (
            [Nack(HELD, "refused\nfar", LATER)],
            [("failed", "held", "by web-3: refused"), ("queued", "held", "")],
        ),
        (
            [Nack(HELD, "refused", LATER, 30.0)],
            [("failed", "held", "by web-3: refused"), ("scheduled", "held", f"for {RETRY}")],
        ),
        ([Bury(HELD, "no", LATER)], [("failed", "held", "by web-3: no"), ("dead", "held", "no")]),
        (
            [Crash(HELD, LATER)],
            [("stale", "held", "by web-3: stale: no heartbeat from its worker"), ("queued", "held", "")],
        ),
        ([Release((HELD,), LATER)], [("released", "held", "by web-3"), ("queued", "held", "")]),
        ([Heartbeat(HELD, LATER)], [("heartbeat", "held", "2026-01-01 12:01:00Z")]),
        ([Heartbeat(HELD, LATER, 0.5, "half")], [("progress", "held", "50% half")]),
        ([Cancel("held", LATER)], [("cancelled", "held", "its worker is to stop")]),
        ([Cancel(WAITING, LATER)], [("cancelled", "waiting", "")]),
        (
            [Redrive(DEAD, "new", LATER)],
            [("gone", "dead", "redriven, or discarded"), ("enqueued", "new", "queued, to do dead again")],
        ),
        ([Discard(DEAD)], [("gone", "dead", "redriven, or discarded")]),
        ([PutSchedule(POLL, NOW)], [("schedule", "poll", "added, next 2026-01-01 12:01:00Z")]),
        ([Pause("mail"), Pause(None)], [("paused", "the whole queue", ""), ("paused", "mail", "")]),
        ([SetLimit("mail", None, Limit(max_running=3))], [("limit", "mail", "max_running 3")]),
        ([SetLimit(None, "k*", Limit(rate=2.0))], [("limit of key", "k*", "rate 2, burst 2")]),
        (
            [Adopt("import-1", 7, (NamedBatch("b", JobBatch(total=3, left=3, then=job("b"))),), NOW)],
            [("batch", "b", "3 jobs, new"), ("loaded", "import-1", "up to number 7")],
        ),
    ],
)
def test_what_happened_is_told_in_these_words(state, operations, expected):
    assert told(state, *operations) == expected


def test_what_ends_is_told_too(state):
    for operation in (PutSchedule(POLL, NOW), Pause("mail"), SetLimit("mail", None, Limit(rate=2.0))):
        state.apply(operation)
    assert told(state, Fire(LATER))[-1] == (
        "schedule",
        "poll",
        "fired for 2026-01-01 12:01:00Z, next 2026-01-01 12:02:00Z",
    )
    assert told(state, RemoveSchedule("poll")) == [("schedule", "poll", "removed")]
    assert told(state, Resume("mail")) == [("resumed", "mail", "")]
    assert told(state, SetLimit("mail", None, Limit())) == [("limit", "mail", "removed")]


def test_a_new_leader_is_told_and_its_heartbeats_are_not(state):
    before = decode(encode(state))
    state.leader = Leader(epoch=1, broker="a", address="10.0.0.7:7420", beat_at=NOW)
    state.epoch = 1
    led = decode(encode(state))
    assert [tuple(one) for one in differences(before, led)] == [("leader", "10.0.0.7:7420", "", "epoch 1")]
    state.leader = Leader(epoch=1, broker="a", address="10.0.0.7:7420", beat_at=LATER)
    assert list(differences(led, decode(encode(state)))) == []
    state.leader = Leader(epoch=2, broker="b", address="10.0.0.8:7420", beat_at=LATER)
    state.epoch = 2
    [change] = differences(led, decode(encode(state)))
    assert (change.name, change.how) == ("10.0.0.8:7420", "epoch 2, after 10.0.0.7:7420")


def test_a_job_that_is_archived_meanwhile_is_told_to_be_there(state):
    before = decode(encode(state))
    state.apply(Ack(HELD, LATER))
    state.ledger.seal(2)
    for name in list(state.ledger.sealed):
        state.ledger.drop(name)
    changes = {one.name: one.how for one in differences(before, decode(encode(state)))}
    assert changes["held"] == "finished, and archived"
    assert changes["archived"] == "0 -> 2"
