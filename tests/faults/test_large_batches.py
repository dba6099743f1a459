"""What costs a broker more than it costs the client that sends it."""

import asyncio

import pytest
from msgspec.structs import replace

from bucketq import BrokerQueue, InMemoryStorage, OutcomeUnknownError, TooLargeError
from bucketq.codec import decode, encode
from bucketq.ending import Ending
from bucketq.job import Claim
from bucketq.operation import BATCH_OPERATIONS_MAX, Ack, AckMany, Batch, Enqueue, LookUp
from bucketq.state import QueueState
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.test_client_payloads import broker
from tests.unit.states import NOW, filled, new


@virtual_time
async def test_a_batch_has_so_many_operations_and_no_more():
    async with broker(InMemoryStorage()) as client:
        with pytest.raises(TooLargeError, match="5000 operations, not 5001"):
            await client.send(*[LookUp("1")] * (BATCH_OPERATIONS_MAX + 1))
        assert await client.send(*[LookUp("1")] * BATCH_OPERATIONS_MAX) == [None] * BATCH_OPERATIONS_MAX


@pytest.mark.parametrize("is_read_again", [False, True])
def test_answers_that_are_too_long_are_not_kept_and_nobody_is_told_something_else(is_read_again):
    state = QueueState()
    lost = AckMany(tuple(Claim(f"{number:0250}", "t") for number in range(2000)), NOW)
    batch = Batch("s", 1, 0, (Enqueue((new("a"),)), lost), NOW)
    assert len(state.apply(batch).answers[1]) == 2000
    content = encode(state)
    assert len(content) < 1000
    state = decode(content) if is_read_again else state
    with pytest.raises(OutcomeUnknownError, match="too long to be told again"):
        state.apply(batch)
    assert state.apply(replace(batch, number=2, operations=(LookUp("a"),))).answers[0].id == "a"


def test_a_finished_job_is_found_whatever_was_undone_sealed_and_dropped_since():
    state = filled(*(new(f"job-{number}") for number in range(6)))
    state.archives = True

    def ack():
        job = state.dequeue(None, "t", NOW)
        state.apply(Ack(Claim.of(job), NOW))
        return job.id

    def is_finished(job_id):
        return isinstance(state.look_up(job_id), Ending)

    ids = [ack(), ack()]
    assert all(map(is_finished, ids))
    third = state.dequeue(None, "t", NOW)

    def ends_in_vain(state):
        state.ack(Claim.of(third), NOW)
        assert is_finished(third.id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        state.apply(ends_in_vain)
    assert not is_finished(third.id)
    fourth = ack()
    assert [is_finished(one) for one in (*ids, third.id, fourth)] == [True, True, False, True]
    state.seal()
    fifth = ack()
    assert [is_finished(one) for one in (*ids, third.id, fourth, fifth)] == [True, True, False, True, True]
    [name] = state.ledger.sealed
    state.drop_archived(name)
    assert [state.look_up(one) for one in (*ids, fourth)] == [None] * 3
    assert is_finished(fifth)


@virtual_time
async def test_those_who_wait_for_very_many_names_all_get_their_turn():
    async with BrokerQueue(InMemoryStorage(), clock=VirtualClock()) as q:
        filters = [[f"{number}-{name}" for name in range(1000)] for number in range(55)]
        waiting = [asyncio.create_task(q.dequeue(names, wait=60)) for names in filters]
        await asyncio.sleep(1)
        for names in filters:
            await q.enqueue(names[500])
        claimed = await asyncio.gather(*waiting)
        assert [job.entrypoint for [job] in claimed] == [names[500] for names in filters]


def test_jobs_that_replace_each_other_know_the_fates_of_others():
    state = filled(new("open"))
    jobs = [new(f"{number}", key="k", after=("done", "open")) for number in range(5)]
    state.apply(Enqueue(tuple(jobs), "replace", (("done", True),)))
    assert [(job.id, job.after) for job in state.jobs] == [("open", ()), ("4", ("open",))]
