"""Jobs that wait for others, and batches, in the state machine: without asyncio or a clock."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import ConfigurationError, Job, JobStatus, QueueState
from bucketq.archived_job import FinishedStatus, decode_archived
from bucketq.batches import BatchCounts, Batches
from bucketq.codec import StateEncoder, decode, encode
from bucketq.errors import JobNotFoundError, ParentsUnknownError, QueueFullError
from bucketq.job import Claim, IfDead
from bucketq.operation import Ack, Batch, Enqueue, EnqueueBatch, FindBatch, Heartbeat, LookUp, Nack
from bucketq.operation.settlements import Cancel
from bucketq.refusal import Refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def new(job_id, entrypoint="mail", **fields):
    return Job(id=job_id, entrypoint=entrypoint, created_at=NOW, max_attempts=1, **fields)


def filled(*jobs):
    state = QueueState()
    state.archives = True
    for job in jobs:
        state.enqueue(job)
    return state


def claim(state, entrypoint=None):
    return Claim.of(state.dequeue(entrypoint, "t", NOW))


def blocked(state):
    return [job.id for job in state.with_status(JobStatus.BLOCKED)]


def waiting(state):
    return [job.id for job in state.queued_jobs()]


def test_a_job_comes_in_line_at_the_place_it_was_given_when_it_was_enqueued():
    state = filled(new("a"), new("b", after=("a",)), new("c"))
    assert (blocked(state), waiting(state)) == (["b"], ["a", "c"])
    state.ack(claim(state), NOW)
    assert (blocked(state), waiting(state)) == ([], ["b", "c"])
    assert state.is_conserved()


def test_what_waits_for_what_is_known_again_when_the_file_is_read():
    state = decode(encode(filled(new("a"), new("b"), new("c", after=("a", "b")))))
    state.ack(claim(state), NOW)
    state = decode(encode(state))
    assert state.find("c").after == ("b",)
    state.ack(claim(state), NOW)
    assert waiting(state) == ["c"]


def test_an_operation_that_fails_leaves_everybody_waiting_and_every_batch_as_it_was():
    state = filled(new("a", batch="x"), new("b", after=("a",)))
    state.begin_batch(new("x"), 1)
    held = claim(state)
    before = encode(state)

    def fails(state):
        state.ack(held, NOW)
        assert waiting(state) == ["b", "x"]
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError):
        state.apply(fails)
    assert encode(state) == before
    state.ack(held, NOW)
    assert waiting(state) == ["b", "x"]


def test_a_long_chain_is_cancelled_to_its_end_and_every_link_says_why():
    links = [new(f"job-{number}", after=(f"job-{number - 1}",)) for number in range(1, 3000)]
    state = filled(new("job-0"), *links)
    state.nack(claim(state), "boom", NOW)
    assert (state.stats.blocked, state.stats.cancelled_total) == (0, 2999)
    assert state.is_conserved()
    archived = [decode_archived(entry.line) for entry in state.ledger.finished]
    assert len(archived) == 3000
    last = archived[-1]
    assert (last.id, last.status, last.claimed_at, last.attempts) == ("job-2999", "cancelled", None, ())
    assert "job-2998" in last.error


def test_a_child_of_two_that_die_together_is_cancelled_once():
    state = filled(new("a"), new("b"), new("c", after=("a", "b")))
    for _ in range(2):
        state.nack(claim(state), "boom", NOW)
    assert state.stats.cancelled_total == 1
    assert state.is_conserved()


def test_a_job_that_is_for_later_is_scheduled_unless_its_time_has_come():
    soon = NOW + timedelta(hours=1)
    for now, status in ((NOW, JobStatus.SCHEDULED), (soon, JobStatus.QUEUED)):
        state = filled(new("a"), new("b", after=("a",), run_at=soon))
        state.ack(claim(state), now)
        assert state.find("b").status is status


def test_a_parent_that_cannot_be_found_is_asked_for_and_what_is_told_of_it_counts():
    jobs = (new("b", after=("x", "y")), new("c", after=("y",), if_dead=IfDead.RUN))
    with pytest.raises(ParentsUnknownError) as refused:
        filled(jobs[0])
    assert refused.value.job_ids == ("x", "y")
    assert Refusal.of(refused.value).exception().job_ids == ("x", "y")
    state = filled()
    added = Enqueue(jobs, finished=(("x", True), ("y", False)))(state)
    assert [job.is_cancelled for job in added] == [True, False]
    assert (waiting(state), state.stats.cancelled_total) == (["c"], 1)
    assert Enqueue(jobs[:1], finished=(("x", True), ("y", True)))(filled())[0].status is JobStatus.QUEUED


def test_without_an_archive_a_parent_that_is_gone_counts_as_done():
    state = QueueState()
    assert state.enqueue(new("b", after=("x",))).status is JobStatus.QUEUED


def test_a_job_waits_for_a_batch_by_its_id():
    state = filled()
    EnqueueBatch(new("x", batch="x"), Enqueue((new("a", batch="x"),)), NOW)(state)
    state.enqueue(new("b", after=("x",)))
    state.ack(claim(state), NOW)
    assert (blocked(state), waiting(state)) == (["b"], ["x"])
    state.ack(claim(state), NOW)
    assert waiting(state) == ["b"]


def test_a_batch_counts_every_end_once_and_its_follower_not_at_all():
    state = filled()
    jobs = (new("a", batch="x"), new("b", batch="x"), new("c", batch="x", after=("b",)))
    # The parent is enqueued in the same operation.
    EnqueueBatch(new("x", batch="x"), Enqueue(jobs), NOW)(state)
    held = claim(state)
    state.release(held)
    state.ack(claim(state), NOW)
    assert FindBatch("x")(state) == BatchCounts(3, 2, 0)
    state.nack(claim(state), "boom", NOW)
    assert FindBatch("x")(state) == BatchCounts(3, 0, 2), "the dead one, and the one that waited for it"
    assert waiting(state) == ["x"]
    assert FindBatch("x")(decode(encode(state))) == BatchCounts(3, 0, 2)
    state.nack(claim(state), "boom", NOW)
    assert FindBatch("x")(state) is None
    assert state.is_conserved()
    assert "batches" not in encode(state).decode()


def test_encoding_batches_again_equals_encoding_them_anew():
    state = filled()
    for name in ("x", "y"):
        EnqueueBatch(new(name, batch=name), Enqueue((new(f"{name}-1", batch=name),)), NOW)(state)
    encoder = StateEncoder(state)
    encoder.encode()
    for _ in range(4):
        state.ack(claim(state), NOW)
        assert dict(decode(b"".join(encoder.encode())).batches) == dict(state.batches)
    assert not state.batches


def test_open_batches_cost_nothing_unless_they_change(monkeypatch):
    state = filled()
    for number in range(50):
        name = f"x-{number}"
        EnqueueBatch(new(name, batch=name), Enqueue((new(f"a-{number}", batch=name),)), NOW)(state)
    encoder = StateEncoder(state)
    encoder.encode()
    encoded = []
    monkeypatch.setattr(Batches, "__iter__", lambda batches: pytest.fail("all of them were looked at"))
    monkeypatch.setattr("bucketq.codec.encoder.encode_batch", lambda batch: encoded.append(batch) or b"{}")
    state.enqueue(new("plain"))
    encoder.encode()
    assert not encoded
    batches = state.batches
    state.ack(claim(state), NOW)
    encoder.encode()
    assert [batch.left for batch in encoded] == [0]
    assert state.batches is batches, "they were not copied"


def test_a_batch_that_was_taken_back_is_encoded_as_it_is():
    state = filled()
    EnqueueBatch(new("x", batch="x"), Enqueue((new("a", batch="x"),)), NOW)(state)
    encoder = StateEncoder(state)
    before, held = b"".join(encoder.encode()), claim(state)
    state.release(held)

    def fails(state):
        state.ack(claim(state), NOW)
        EnqueueBatch(new("y", batch="y"), Enqueue((new("b", batch="y"),)), NOW)(state)
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError):
        state.apply(fails)
    assert b"".join(encoder.encode()) == before


def test_too_many_open_batches_are_refused_until_one_is_finished(monkeypatch):
    monkeypatch.setattr("bucketq.batches.BATCHES_MAX", 2)
    state = filled()

    def begin(name):
        state.apply(EnqueueBatch(new(name, batch=name), Enqueue((new(f"{name}-1", batch=name),)), NOW))

    begin("x")
    begin("y")
    before = encode(state)
    with pytest.raises(QueueFullError, match=r"2 batches are open.*when another is finished"):
        begin("z")
    assert encode(state) == before
    for _ in range(3):
        state.ack(claim(state), NOW)
    begin("z")
    assert [name for name, _ in state.batches] == ["y", "z"]


def test_a_follower_that_is_cancelled_takes_its_batch_and_its_payload_with_it():
    state = filled()
    name = "payloads/000000000008-00000000000000aa"
    EnqueueBatch(new("x", batch="x", payload_object=name), Enqueue((new("a", batch="x"),)), NOW)(state)
    with pytest.raises(JobNotFoundError, match="is blocked"):
        state.redrive("x", "y", NOW)
    assert state.apply(Cancel("x", NOW)).status is JobStatus.BLOCKED
    assert (list(state.batches), state.dropped) == ([], [name])
    state.ack(claim(state), NOW)
    assert (waiting(state), state.stats.cancelled_total) == ([], 1)
    assert state.is_conserved()


def test_the_payload_of_a_follower_is_referred_to_before_it_is_enqueued():
    state = filled()
    name = "payloads/000000000008-00000000000000aa"
    EnqueueBatch(new("x", payload_object=name), Enqueue((new("a", batch="x"),)), NOW)(state)
    assert name in state.object_names()
    assert name in decode(encode(state)).object_names()
    # By then its object is old, but never was without a reference.
    state.version = 20
    state.collect(20)
    state.ack(claim(state), NOW)
    assert waiting(state) == ["x"]


def test_looking_up_tells_of_jobs_that_stand_and_of_those_on_their_way_to_the_archive():
    state = filled(new("a"), new("b"))
    Ack(claim(state), NOW, b'{"n":1}')(state)
    Nack(claim(state), "boom", NOW)(state)
    assert LookUp("a")(state) == (FinishedStatus.COMPLETED, None, {"n": 1})
    assert LookUp("b")(state).status is JobStatus.DEAD
    state.seal()
    assert LookUp("a")(state).succeeded
    assert LookUp("c")(state) is None


def test_a_batch_of_a_client_that_is_sent_again_is_answered_as_before():
    state = filled(new("p"))
    state.nack(claim(state), "boom", NOW)
    then = new("x", batch="x")
    operations = (
        Enqueue((new("a", after=("p",)), new("b"))),
        Enqueue((new("c", after=("b",)),)),
        EnqueueBatch(then, Enqueue((new("d", batch="x"),)), NOW),
        LookUp("b"),
        FindBatch("x"),
        Enqueue((new("e", after=("nobody",)),)),
    )
    batch = Batch("client", 1, 0, operations, NOW)
    first, again = state.apply(batch), state.apply(batch)
    assert state.enqueued_total == 5
    assert first.answers[0][0].is_cancelled
    assert first.answers[0][0].error == again.answers[0][0].error
    assert [job.is_cancelled for job in again.answers[0]] == [True, False]
    assert first.answers[1:5] == again.answers[1:5]
    assert first.answers[5].job_ids == again.answers[5].job_ids == ("nobody",)


def test_an_earlier_heartbeat_lends_a_later_one_what_it_does_not_say():
    beat = Heartbeat(Claim("a", "t"), NOW, 0.5)
    assert Heartbeat(Claim("a", "t"), NOW, None, "x").after(beat) == Heartbeat(Claim("a", "t"), NOW, 0.5, "x")
    assert Heartbeat(Claim("a", "u"), NOW).after(beat) == Heartbeat(Claim("a", "u"), NOW), "another's claim"


def test_a_follower_that_is_there_already_is_refused():
    state = filled(new("x"))
    with pytest.raises(ConfigurationError):
        state.begin_batch(new("x"), 1)
