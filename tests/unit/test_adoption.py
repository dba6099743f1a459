"""Adopt: what another queue had becomes this one's, once, and everything still adds up."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import ConfigurationError, Job, JobStatus, Settings
from bucketq.archived_job import decode_archived
from bucketq.batches import JobBatch, NamedBatch
from bucketq.codec import decode, encode
from bucketq.job import Attempt, Claim, Outcome
from bucketq.limits import Limit, Limits
from bucketq.loads import LoadMark
from bucketq.operation import Ack, Adopt, Dequeue
from bucketq.schedule import Schedule
from bucketq.state import QueueState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FAILED = Attempt(claimed_at=NOW, ended_at=NOW, outcome=Outcome.FAILED, error="refused")


@pytest.fixture
def state():
    state = QueueState()
    state.archives, state.settings = True, Settings()
    yield state
    assert state.is_conserved()
    assert decode(encode(state)).jobs == state.jobs


def job(job_id, **fields):
    return Job(id=job_id, entrypoint="mail", created_at=NOW, **fields)


def adopt(state, *holdings, number=1):
    return state.apply(Adopt("import-1", number, holdings, LATER))


def done(state, token="t"):
    [claimed] = state.apply(Dequeue("mail", 1, token, LATER))
    state.apply(Ack(Claim.of(claimed), LATER))
    return claimed


def test_jobs_come_with_their_history_in_the_order_of_the_part(state):
    tried = job("1", attempts=1, error="refused", history=(FAILED,))
    assert adopt(state, tried, job("2"), job("3", priority=-1)) == 3
    assert [one.id for one in state.queued_jobs()] == ["3", "1", "2"]
    found = state.find("1")
    assert (found.attempts, found.error, found.history) == (1, "refused", (FAILED,))


def test_a_part_is_adopted_once_even_if_its_jobs_are_finished(state):
    assert adopt(state, job("1")) == 1
    done(state)
    before = encode(state)
    assert adopt(state, job("1")) == 0
    assert encode(state) == before
    assert adopt(state, job("2"), number=2) == 1
    with pytest.raises(ConfigurationError):
        adopt(state, job("1"))


def test_a_part_waits_for_another_look_if_another_import_came_first(state):
    first, second = (state.loads.imports_seen() for _ in range(2))
    assert state.apply(Adopt("import-1", 1, (job("1"),), LATER, seen=first)) == 1
    before = encode(state)
    assert state.apply(Adopt("import-2", 1, (job("1"), job("2")), LATER, seen=second)) is None
    assert state.apply(Adopt("import-1", 1, (job("1"),), LATER, seen=second)) is None
    assert encode(state) == before
    assert state.apply(Adopt("import-2", 1, (job("2"),), LATER, seen=state.loads.imports_seen())) == 1


def test_a_load_that_is_no_import_keeps_none_from_going_on(state):
    seen = state.loads.imports_seen()
    state.load("nightly", LoadMark(1))
    assert state.apply(Adopt("import-1", 1, (job("1"),), LATER, seen=seen)) == 1


def test_a_job_that_is_here_and_one_whose_key_is_taken_are_left_out(state):
    state.enqueue(job("1", key="k"))
    assert adopt(state, job("1"), job("2", key="k"), job("3", key="l")) == 1
    assert {one.id for one in state.jobs} == {"1", "3"}


def test_a_job_whose_key_is_kept_by_a_finished_one_is_left_out(state):
    state.enqueue(job("1", key="k", key_for_s=7200))
    done(state)
    assert adopt(state, job("2", key="k"), job("3")) == 1
    assert [one.id for one in state.jobs] == ["3"]


def test_a_key_that_was_kept_when_a_job_was_made_is_free_by_now(state):
    state.enqueue(job("1", key="k", key_for_s=60))
    [claimed] = state.apply(Dequeue("mail", 1, "t", NOW))
    state.apply(Ack(Claim.of(claimed), NOW))
    assert adopt(state, job("2", key="k")) == 1


def test_a_dead_job_is_counted_and_archived(state):
    dead = job("1", status=JobStatus.DEAD, attempts=3, error="refused", history=(FAILED,), batch="b")
    adopt(state, NamedBatch("b", JobBatch(total=2, left=1, failed=1, then=job("b", batch="b"))), dead)
    assert (state.stats.dead, state.dead_total, state.enqueued_total) == (1, 1, 1)
    [line] = state.ledger.lines()
    archived = decode_archived(line)
    assert (archived.id, archived.status, archived.error) == ("1", "dead", "refused")
    assert archived.finished_at == LATER
    # Its batch counted it where it died.
    assert state.batches.get("b").counts == (2, 1, 1)
    assert state.redrive("1", "2", LATER).redrive_of == "1"


def test_what_follows_a_batch_comes_when_its_last_job_is_done(state):
    then = job("b", batch="b", status=JobStatus.BLOCKED, priority=1)
    adopt(state, NamedBatch("b", JobBatch(total=9, left=1, failed=2, then=then)), job("1", batch="b"))
    assert state.find("b") is None
    done(state)
    assert state.find("b").status is JobStatus.QUEUED
    assert state.batches.get("b").counts == (9, 0, 2)


def test_what_follows_a_batch_of_which_nothing_is_left_comes_at_once(state):
    then = job("b", batch="b", status=JobStatus.BLOCKED)
    adopt(state, NamedBatch("b", JobBatch(total=9, left=0, then=then)))
    assert state.find("b").status is JobStatus.QUEUED


def test_a_job_of_a_batch_whose_key_is_taken_is_not_waited_for(state):
    state.enqueue(job("0", key="k"))
    then = job("b", batch="b", status=JobStatus.BLOCKED)
    adopt(state, NamedBatch("b", JobBatch(total=1, left=1, then=then)), job("1", batch="b", key="k"))
    assert state.find("b").status is JobStatus.QUEUED
    assert state.batches.get("b").counts == (1, 0, 1)


def test_what_governs_this_queue_stays_and_the_rest_is_added(state):
    mine = Schedule(name="report", every_s=60.0, job=job("mine"))
    state.put_schedule(mine, NOW)
    state.set_limits(Limits(entrypoints={"mail": Limit(max_running=1)}, paused=("fax",)))
    theirs = Limits(
        paused=("sms",),
        entrypoints={"mail": Limit(max_running=9), "sms": Limit(rate=2.0)},
        limit_keys={"k*": Limit(max_running=3)},
    )
    other = Schedule(name="poll", every_s=60.0, next_at=NOW, job=job("poll"))
    adopt(state, theirs, Schedule(name="report", every_s=1.0, job=job("theirs")), other)
    assert state.limits == Limits(
        paused=("fax", "sms"),
        entrypoints={"mail": Limit(max_running=1), "sms": Limit(rate=2.0)},
        limit_keys={"k*": Limit(max_running=3)},
    )
    assert state.schedules.get("report").job.id == "mine"
    # Ticks that passed on the way are not made up for.
    assert state.schedules.get("poll").next_at == LATER + timedelta(seconds=60)


def test_a_part_that_cannot_be_adopted_whole_is_not_adopted_at_all(state):
    state.settings = Settings(queue_bytes_max=20_000, hot_bytes_max=1000, payload_inline_max=1000)
    before = encode(state)
    with pytest.raises(Exception, match="queue_bytes_max"):
        adopt(state, *(job(str(number), payload=b"x" * 900) for number in range(50)))
    assert encode(state) == before
