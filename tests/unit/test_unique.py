"""Unique keys, cancel and dead letters in the state machine: undone whole, and told twice the same."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bucketq import (
    ConfigurationError,
    JobCancelledError,
    JobNotFoundError,
    JobStatus,
    KeyTakenError,
    QueueState,
    Settings,
)
from bucketq.backlog import Backlog, SegmentNeededError
from bucketq.broker.inspection import inspect_segment
from bucketq.codec import decode, encode
from bucketq.job import Claim
from bucketq.operation import Ack, Batch, Bury, Dequeue, Enqueue, Nack
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.segment import Segment, SegmentKeys
from bucketq.segment_lines import SegmentLines, SegmentWriter
from tests.unit.states import NOW, filled, new

HOUR = timedelta(hours=1)


def written(jobs):
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    segment, content = writer.finish("backlog/000000000001-00000000000000aa.json")
    return segment, content, writer.keys_content


def spilled(*jobs):
    """A state whose jobs are in a segment, which has not been read."""
    state = QueueState()
    jobs = [state.enqueue(job) for job in jobs]
    segment, content, keys = written(jobs)
    assert state.spill([(segment, jobs)]) == []
    return state, segment, content, keys


def picture(state):
    return state.jobs, state.stats, state.sequence, state.changes, [*state.backlog], encode(state)


def reread(state):
    """The state as another broker reads it."""
    state.stamp("writer", state.version)
    return decode(encode(state))


def test_an_operation_that_fails_gives_every_key_back():
    state = filled(new("a", key="k"), new("b", key="l", key_for_s=60.0))
    running = state.dequeue(None, "t", NOW)
    state.nack(Claim.of(running), "boom", NOW)
    running = state.dequeue(None, "t", NOW)
    finished = state.dequeue(None, "t", NOW)
    state.kept_keys.keep("old", "job-0", NOW)
    before = picture(state)

    def several(state):
        state.ack(Claim.of(finished), NOW)
        assert "old" not in state.kept_keys.kept
        assert state.kept_keys.get("l", NOW)
        state.cancel("a", NOW)
        state.nack(Claim.of(running), "boom", NOW)
        state.enqueue(new("c", key="k"))
        state.enqueue(new("d", key="k"), "replace")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        state.apply(several)
    assert picture(state) == before
    assert (state.enqueue(new("e", key="k")).id, state.enqueue(new("f", key="l")).id) == ("a", "b")
    state.kept_keys.prune(NOW)
    assert not state.kept_keys, "what was put back ends all the same"


def test_a_key_needs_the_fingerprints_of_every_segment_and_then_the_one_that_has_it():
    state, segment, content, keys = spilled(*(new(f"job-{n}", key=f"k{n}") for n in range(10)))
    assert segment.keys == 10
    with pytest.raises(SegmentNeededError) as caught:
        state.enqueue(new("x", key="other"))
    assert caught.value.segments == (SegmentKeys(segment),)
    state.shelf.put(SegmentKeys(segment), keys)
    state.enqueue(new("x", key="other"))
    with pytest.raises(SegmentNeededError) as caught:
        state.enqueue(new("y", key="k7"))
    assert caught.value.segments == (segment,)
    state.shelf.put(segment, content)
    assert state.enqueue(new("y", key="k7")).id == "job-7"
    state.enqueue(new("z", key="k7"), "replace")
    assert state.enqueue(new("y", key="k7")).id == "z"
    [left] = state.backlog
    assert (left.count, left.holes) == (9, (8,))
    assert state.is_conserved()


def test_which_segments_have_keys_is_found_out_once_for_each_backlog(monkeypatch):
    state, segment, _, keys = spilled(*(new(f"job-{n}", key=f"k{n}") for n in range(3)))
    state.shelf.put(SegmentKeys(segment), keys)
    walks = []
    walk = Backlog.__iter__
    monkeypatch.setattr(Backlog, "__iter__", lambda backlog: walks.append(backlog) or walk(backlog))
    for number in range(20):
        state.apply(Enqueue((new(f"new-{number}", key=f"new-{number}"),)))
    assert len(walks) == 1
    state.backlog = state.backlog.replaced(tuple(state.backlog), ())
    assert state.backlog.keyed() == []


def test_a_segment_is_asked_no_more_for_what_has_left_it():
    state, segment, content, keys = spilled(*(new(f"job-{n}", key=f"k{n}") for n in range(3)))
    state.shelf.put(SegmentKeys(segment), keys)
    state.shelf.put(segment, content)
    state.ack(Claim.of(state.dequeue(None, "t", NOW)), NOW)
    assert state.enqueue(new("again", key="k0")).id == "again"


def test_dead_jobs_in_a_segment_take_no_keys():
    segment, _, _ = written([new("a", status=JobStatus.DEAD, key="k", sequence=1)])
    assert segment.keys == 0


def inspect(segment, content):
    lines = SegmentLines(segment, content)
    lines.check_new()
    for _ in inspect_segment(segment, lines.jobs(segment), None, segment.count, {}):
        pass


def test_a_client_cannot_slip_keys_in_by_a_segment():
    jobs = [new("a", sequence=1), new("b", key="k", sequence=2), new("c", sequence=3)]
    segment, content, _ = written(jobs)
    with pytest.raises(ConfigurationError, match="one by one"):
        QueueState().enqueue_segments([segment])
    with pytest.raises(ConfigurationError, match="without a unique key"):
        inspect(replace(segment, keys=0), content)
    harmless = [replace(job, key=None, payload=b'{"key":"k"}') for job in jobs]
    segment, content, _ = written(harmless)
    inspect(segment, content)


def test_a_cancelled_claim_hears_of_it_and_may_still_finish():
    state = filled(new("a"))
    job = state.dequeue(None, "t", NOW)
    state.cancel("a", NOW)
    changes = state.changes
    state.cancel("a", NOW)
    assert state.changes == changes, "once is enough"
    with pytest.raises(JobCancelledError):
        state.heartbeat(Claim.of(job), NOW)
    state.ack(Claim.of(job), NOW)
    assert (state.completed_total, state.cancelled_total) == (1, 0)


def test_what_is_told_of_a_job_elsewhere_is_where_it_could_be():
    state, segment, content, _ = spilled(*(new(f"job-{n}") for n in range(3)))
    assert state.apply(Cancel("job-1", NOW)) == [segment]
    with pytest.raises(SegmentNeededError):
        state.apply(Cancel("job-1", NOW, segment.name))
    state.shelf.put(segment, content)
    assert state.apply(Cancel("job-1", NOW, segment.name)).id == "job-1"
    with pytest.raises(JobNotFoundError):
        state.apply(Redrive("job-2", "new", NOW))
    assert isinstance(state.apply(Cancel("job-1", NOW, segment.name))[0], Segment), "it is gone"


def dead(state, job_id, **fields):
    state.enqueue(new(job_id, max_attempts=1, **fields))
    return state.nack(Claim.of(state.dequeue(None, "t", NOW)), "boom", NOW)


def test_a_redriven_job_starts_afresh_and_keeps_what_was_asked_of_it():
    state = QueueState()
    dead(
        state,
        "old",
        payload=b"x",
        priority=3,
        key="k",
        tenant="acme",
        limit_key="gpu",
        timeout_s=5.0,
        expires_at=NOW + HOUR,
        max_crashes=7,
    )
    again = state.redrive("old", "again", NOW + HOUR)
    assert (again.id, again.redrive_of, again.created_at) == ("again", "old", NOW + HOUR)
    assert (again.payload, again.priority, again.key, again.tenant) == (b"x", 3, "k", "acme")
    assert (again.limit_key, again.timeout_s, again.max_crashes) == ("gpu", 5.0, 7)
    assert (again.attempts, again.history, again.error, again.expires_at) == (0, (), None, None)
    assert state.stats.dead == 0
    assert state.is_conserved()


def test_a_batch_that_is_sent_again_is_answered_with_the_same_jobs():
    state = QueueState()
    for number in range(3):
        dead(state, f"dead-{number}")
    state.enqueue(new("first", key="k"))
    state.enqueue(new("running"))
    state.enqueue(new("waiting"))
    state.dequeue(None, "other", NOW)
    state.dequeue(None, "other", NOW)
    work = Batch(
        "client",
        1,
        0,
        (
            Enqueue((new("second", key="k"), new("third"))),
            Enqueue((new("fourth", key="k"),), "raise"),
            Cancel("waiting", NOW),
            Cancel("running", NOW),
            Redrive("dead-0", "again-0", NOW),
            SettleMany((Redrive("dead-1", "again-1", NOW), Redrive("nobody", "again-2", NOW))),
            Discard("dead-2"),
        ),
        NOW,
    )
    first = state.apply(work).answers
    # The one that had the key is finished by the time that the batch comes again.
    state.apply(Ack(Claim("first"), NOW))
    state.apply(Dequeue(None, 10, "other", NOW))
    state.apply(Ack(Claim("again-0"), NOW))
    for again in (state, reread(state)):
        before = again.changes, again.stats
        told = again.apply(work).answers
        assert (again.changes, again.stats) == before
        assert [job.id for job in told[0]] == [job.id for job in first[0]] == ["first", "third"]
        assert isinstance(told[1], KeyTakenError)
        assert (told[1].job_id, str(told[1])) == ("first", str(first[1]))
        assert [(job.id, job.is_cancelled) for job in told[2:4]] == [("waiting", True), ("running", True)]
        assert (told[4].id, told[4].redrive_of) == ("again-0", "dead-0")
        assert told[5:] == first[5:] == [1, 1]


def test_giving_back_a_cancelled_job_is_answered_again_as_before_though_it_is_gone():
    state = filled(new("a"), new("b"))
    jobs = state.apply(Dequeue(None, 2, "t", NOW))
    for job in jobs:
        state.apply(Cancel(job.id, NOW))
    work = Batch(
        "client", 1, 0, (Nack(Claim.of(jobs[0]), "boom", NOW), Bury(Claim.of(jobs[1]), "bad", NOW)), NOW
    )
    first = state.apply(work).answers
    assert [(job.id, job.is_cancelled, job.error) for job in first] == [
        ("a", True, "boom"),
        ("b", True, "bad"),
    ]
    for again in (state, reread(state)):
        assert again.apply(work).answers == first
        assert again.stats.cancelled_total == 2


def test_new_jobs_of_which_one_is_cancelled_and_one_has_a_taken_key_are_told_again_as_before():
    state = filled()
    dead(state, "parent")
    state.enqueue(new("first", key="k"))
    jobs = new("a", key="k"), new("b", after=("parent",), payload=b"x"), new("c")
    work = Batch("client", 1, 0, (Enqueue(jobs),), NOW)
    [first] = state.apply(work).answers
    for again in (state, reread(state)):
        [told] = again.apply(work).answers
        assert [(job.id, job.status, job.is_cancelled, job.error) for job in told] == [
            (job.id, job.status, job.is_cancelled, job.error) for job in first
        ]
        assert told[1].is_cancelled
        assert told[1].payload == b"x"


def test_the_holder_of_a_key_in_a_segment_is_told_again_as_itself():
    jobs = (new(f"job-{n}", key=f"k{n}", priority=7, tenant="acme") for n in range(10))
    state, segment, content, keys = spilled(*jobs)
    state.shelf.put(SegmentKeys(segment), keys)
    state.shelf.put(segment, content)
    work = Batch("client", 1, 0, (Enqueue((new("x", key="k7"), new("y"))),), NOW)
    [[first, _]] = state.apply(work).answers
    assert (first.id, first.priority, first.tenant) == ("job-7", 7, "acme")
    for again in (state, reread(state)):
        [[told, other]] = again.apply(work).answers
        assert (told, other.id) == (first, "y")


def test_a_payload_stays_until_nobody_needs_it():
    state = QueueState()
    state.archives, state.settings = True, Settings(archive_payloads=True)
    payload = "payloads/000000000001-00000000000000aa"
    dead(state, "old", payload_object=payload, payload_size=7)
    state.seal()
    [first] = state.ledger.sealed
    state.stamp("writer", 1)
    state.redrive("old", "again", NOW)
    state.ack(Claim.of(state.dequeue(None, "t", NOW)), NOW)
    state.seal()
    [second] = state.ledger.sealed.keys() - {first}
    state.drop_archived(first)
    assert state.dropped == [], "the archive has yet to copy it for the second one"
    state.drop_archived(second)
    assert state.dropped == [payload]


def test_the_payload_of_a_discarded_job_stays_until_the_archive_has_it():
    state = QueueState()
    state.archives, state.settings = True, Settings(archive_payloads=True)
    payload = "payloads/000000000001-00000000000000aa"
    dead(state, "old", payload_object=payload, payload_size=7)
    state.discard("old")
    assert state.dropped == []
    state.seal()
    state.drop_archived(next(iter(state.ledger.sealed)))
    assert state.dropped == [payload]
