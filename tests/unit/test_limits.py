"""Limits and turns, one rule at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from bucketq import Job, QueueState
from bucketq.codec import decode, encode
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.object_name import segment_name
from bucketq.operation import Batch, Dequeue
from bucketq.operation.limits import Pause, ReadLimits, SetLimit
from bucketq.segment_lines import SegmentWriter
from bucketq.turns import TurnLine

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def state_with(count, limit=None, **options):
    state = QueueState()
    for number in range(count):
        state.enqueue(Job(id=str(number), entrypoint="mail", created_at=NOW, **options))
    if limit is not None:
        state.set_limits(limit)
    return state


def begun(state, now, batch_size=100):
    return len(state.apply(Dequeue(None, batch_size, "token", now)))


RATES = [
    (Limits().with_limit("mail", None, Limit(rate=2, burst=3)), {}),
    (Limits().with_limit(None, "g*", Limit(rate=2, burst=3)), {"limit_key": "gpu"}),
]


@pytest.mark.parametrize(("limits", "options"), RATES)
def test_a_bucket_gives_a_burst_and_is_refilled_with_time_also_in_a_state_that_is_read_again(limits, options):
    state = state_with(50, limits, **options)
    assert begun(state, NOW) == 3
    state = decode(encode(state))
    assert begun(state, NOW + timedelta(seconds=0.4)) == 0
    assert state.claimable(None, NOW + timedelta(seconds=0.4)) == 0
    assert state.next_refill(NOW + timedelta(seconds=0.4)) == NOW + timedelta(seconds=0.5)
    assert state.claimable(None, NOW + timedelta(seconds=0.5)) > 0
    assert begun(state, NOW + timedelta(seconds=0.5)) == 1
    assert begun(state, NOW + timedelta(hours=1)) == 3


@pytest.mark.parametrize(("limits", "options"), RATES)
def test_a_clock_that_goes_back_never_refills_a_bucket_and_does_not_stop_it_for_long(limits, options):
    state = state_with(50, limits, **options)
    assert begun(state, NOW) == 3
    for seconds in (-1, -30, 0, -30, 0, -3600):
        assert begun(state, NOW + timedelta(seconds=seconds)) == 0
    ahead = NOW + timedelta(days=1)
    assert begun(state, ahead) == 3
    assert begun(state, NOW) == 0
    assert begun(state, NOW + timedelta(seconds=0.5)) == 1


@pytest.mark.parametrize(("limits", "options"), RATES)
def test_an_operation_that_fails_gives_its_tokens_back(limits, options):
    state = state_with(50, limits, **options)

    def fail(state):
        assert begun_in(state) == 3
        state.set_limits(Limits())
        raise ValueError("failed")

    def begun_in(state):
        return len(Dequeue(None, 100, "token", NOW)(state))

    before = encode(state)
    with pytest.raises(ValueError, match="failed"):
        state.apply(fail)
    assert encode(state) == before
    assert begun(state, NOW) == 3


def test_a_batch_that_is_sent_again_is_answered_and_changes_nothing():
    state = QueueState()
    batch = Batch("me", 1, 0, (Pause("mail"), SetLimit(None, "gpu", Limit(max_running=1)), ReadLimits()), NOW)
    first = state.apply(batch)
    state.stamp("writer", 1)
    changes = state.changes
    again = state.apply(batch)
    assert again.answers == first.answers == [None, None, state.limits]
    assert state.changes == changes


def test_tenants_that_are_served_are_forgotten_and_a_retried_job_keeps_its_turn():
    state = QueueState()
    for number in range(6):
        job = Job(id=str(number), entrypoint="mail", created_at=NOW, tenant=f"tenant-{number % 3}")
        state.enqueue(job)
    [first] = state.apply(Dequeue("mail", 1, "token", NOW))
    state.nack(Claim.of(first), "again", NOW)
    assert state.apply(Dequeue("mail", 1, "token", NOW))[0].id == first.id
    assert len(state.turns.stored()["mail"][0].last) == 3
    begun(state, NOW)
    state = decode(encode(state))
    assert state.turns.stored() == {}, "nobody waits for a turn"
    fresh = state.enqueue(replace(job, id="fresh", tenant="new"))
    assert fresh.turn == 1


def test_a_job_of_high_priority_does_not_push_the_turns_of_the_others_on():
    state = state_with(100, tenant="flood")
    state.enqueue(Job(id="urgent", entrypoint="mail", created_at=NOW, tenant="flood", priority=-1))
    assert state.apply(Dequeue("mail", 1, "token", NOW))[0].id == "urgent"
    other = state.enqueue(Job(id="other", entrypoint="mail", created_at=NOW, tenant="other"))
    assert other.turn == 1


def test_a_flood_without_a_tenant_does_not_starve_tenants_in_another_entrypoint():
    state = state_with(5, tenant="flood")
    for number in range(20):
        state.enqueue(Job(id=f"plain-{number}", entrypoint="thumb", created_at=NOW))
    served = [state.dequeue(None, "token", NOW).id for _ in range(5)]
    assert served == ["0", "1", "2", "3", "4"]


def test_a_bucket_that_is_never_full_does_not_keep_those_that_are():
    slow = Limits().with_limit(None, "slow", Limit(rate=1e-5))
    state = state_with(1, slow.with_limit(None, "fast-*", Limit(rate=10, burst=1)), limit_key="slow")
    assert begun(state, NOW) == 1
    for number in range(1, 50):
        state.enqueue(Job(id=str(number), entrypoint="mail", created_at=NOW, limit_key=f"fast-{number}"))
        if number == 25:
            state = decode(encode(state))
        assert begun(state, NOW + timedelta(seconds=number)) == 1
    assert state.buckets.limit_keys.keys() == {"slow", "fast-49"}


def test_a_bucket_that_was_forgotten_in_vain_is_forgotten_again():
    state = state_with(3, Limits().with_limit(None, "gpu-*", Limit(rate=10, burst=1)))
    state.enqueue(Job(id="gpu", entrypoint="mail", created_at=NOW, limit_key="gpu-1", priority=-1))
    assert begun(state, NOW, 1) == 1

    def fail(state):
        assert len(Dequeue(None, 1, "token", NOW + timedelta(hours=1))(state)) == 1
        assert not state.buckets
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        state.apply(fail)
    assert state.buckets
    assert begun(state, NOW + timedelta(hours=1), 1) == 1
    assert not state.buckets


def test_the_limit_of_a_key_is_searched_once(monkeypatch):
    state = state_with(20, Limits().with_limit(None, "customer-*", Limit(max_running=10, rate=5)))
    for number in range(50):
        job = Job(id=f"c-{number}", entrypoint="mail", created_at=NOW, limit_key="customer-with-a-long-name")
        state.enqueue(job)
    searched, search = [], Limits.of_key
    monkeypatch.setattr(Limits, "of_key", lambda limits, key: searched.append(key) or search(limits, key))
    assert begun(state, NOW) == 25
    assert begun(state, NOW + timedelta(seconds=9)) == 5
    assert searched == ["customer-with-a-long-name"]


def test_limit_keys_that_nobody_waits_for_are_not_remembered():
    state = QueueState()
    for number in range(20):
        state.enqueue(Job(id=str(number), entrypoint="mail", created_at=NOW, limit_key=f"key-{number}"))
        state.ack(Claim.of(state.dequeue("mail", "token", NOW)), NOW)
    assert not state._table.freed


def enqueue(state, job_id, **options):
    return state.apply(
        lambda state: state.enqueue(Job(id=job_id, entrypoint="mail", created_at=NOW, **options))
    )


def served(state, count=1000):
    return [job.id for job in state.apply(Dequeue("mail", count, "token", NOW))]


def test_turns_are_forgotten_when_nobody_waits_for_one():
    state = state_with(2, tenant="acme")
    enqueue(state, "plain")
    enqueue(state, "urgent", tenant="acme", priority=-1)
    assert served(state, 3) == ["urgent", "0", "plain"]
    assert served(state, 0) == []
    assert [*state.turns.lines] == [("mail", 0)], "acme has one more"
    state = decode(encode(state))
    assert served(state) == ["1"]
    assert enqueue(state, "later").turn == 0
    assert not state.turns, "nothing to look at for those who have no tenants"


def test_turns_that_an_older_file_kept_for_nobody_are_forgotten():
    state = QueueState(turns={"mail": {0: TurnLine(7, {})}})
    assert enqueue(state, "plain").turn == 0
    assert not state.turns


def test_a_job_that_comes_back_to_turns_begun_anew_keeps_its_place():
    state = state_with(9, tenant="acme")
    claimed = state.apply(Dequeue("mail", 9, "token", NOW))
    enqueue(state, "plain")
    assert state.nack(Claim.of(claimed[8]), "again", NOW) == state.find("8")
    state.release(Claim.of(claimed[7]))
    state.nack(Claim.of(claimed[6]), "later", NOW, NOW + timedelta(seconds=1))
    for number in range(3):
        enqueue(state, f"beta-{number}", tenant="beta")
    state.wake(NOW + timedelta(seconds=1))
    assert served(state) == ["6", "7", "8", "plain", "beta-0", "beta-1", "beta-2"]


def test_an_operation_that_fails_forgets_no_turns():
    state = state_with(1, tenant="acme")
    assert served(state, 1) == ["0"]
    assert state.turns

    def fail(state):
        state.enqueue(Job(id="plain", entrypoint="mail", created_at=NOW))
        assert not state.turns
        raise ValueError("failed")

    before = encode(state)
    with pytest.raises(ValueError, match="failed"):
        state.apply(fail)
    assert encode(state) == before
    assert enqueue(state, "plain").turn == 0
    assert not state.turns


@pytest.mark.parametrize("order", [1, -1])
def test_jobs_that_were_cancelled_cost_their_tenant_no_turns(order):
    state = state_with(50, tenant="acme")
    enqueue(state, "beta-0", tenant="beta")
    for number in range(50)[::order]:
        state.cancel(str(number), NOW)
    enqueue(state, "acme-again", tenant="acme")
    for number in range(1, 20):
        enqueue(state, f"beta-{number}", tenant="beta")
    assert served(state, 3) == ["beta-0", "acme-again", "beta-1"]


def test_the_turn_of_the_last_job_is_free_when_that_is_cancelled():
    state = state_with(5, tenant="acme")
    for number in (4, 3, 2):
        state.cancel(str(number), NOW)
    assert enqueue(state, "again", tenant="acme").turn == 3


def test_jobs_cancelled_in_a_segment_cost_their_tenant_no_turns():
    state = state_with(4, tenant="acme")
    enqueue(state, "beta", tenant="beta")
    jobs = [state.find(str(number)) for number in range(4)]
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    segment, content = writer.finish(segment_name(1, "0" * 16))
    state.shelf.put(segment, content)
    assert state.spill([(segment, jobs)]) == []
    assert enqueue(state, "fifth", tenant="acme").turn == 5, "the others wait in the segment"
    for job_id in ("0", "1", "2", "3", "fifth"):
        where = segment.name if job_id != "fifth" else ""
        assert state.apply(lambda state, job_id=job_id, where=where: state.cancel(job_id, NOW, where))
    assert enqueue(state, "again", tenant="acme").turn == 1
    assert served(state) == ["beta", "again"]
    assert enqueue(state, "plain").turn == 0


def test_a_replacement_takes_the_turn_of_the_job_it_replaces():
    state = QueueState()
    enqueue(state, "beta", tenant="beta")
    for number in range(3):
        enqueue(state, f"acme-{number}", tenant="acme", key=f"key-{number}")

    def replaced(job_id, **options):
        job = Job(id=job_id, entrypoint="mail", created_at=NOW, **options)
        return state.apply(lambda state: state.enqueue(job, "replace")).turn

    assert replaced("middle", tenant="acme", key="key-1") == 2
    assert [replaced(f"last-{number}", tenant="acme", key="key-2") for number in range(5)] == [3] * 5
    assert replaced("urgent", tenant="acme", key="key-0", priority=-1) == 1
    assert enqueue(state, "acme-3", tenant="acme").turn == 4
    assert served(state) == ["urgent", "beta", "middle", "last-4", "acme-3"]


def test_a_job_that_waits_for_room_again_does_so_in_its_new_place():
    state = QueueState()
    state.set_limits(Limits().with_limit(None, "gpu", Limit(max_running=1)))
    for number in range(2):
        enqueue(state, f"acme-{number}", tenant="acme", limit_key="gpu")
    assert served(state) == ["acme-0"]
    state.apply(lambda state: state.ack(Claim("acme-0"), NOW))
    assert served(state, 1) == ["acme-1"]
    enqueue(state, "beta", tenant="beta", limit_key="gpu")
    state.apply(lambda state: state.release(Claim("acme-1")))
    enqueue(state, "urgent", priority=-1, limit_key="gpu")
    for job_id in ("urgent", "acme-1", "beta"):
        assert served(state) == [job_id]
        state.apply(lambda state, job_id=job_id: state.ack(Claim(job_id), NOW))
