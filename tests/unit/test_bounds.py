"""What a long-lived process keeps in memory has a bound, and a claim costs the same with many entrypoints."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import Job, JobStatus, QueueState
from bucketq.dispatch import Dispatcher
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.operation import Dequeue
from bucketq.ready import ReadyLine
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentWriter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def new(job_id, entrypoint="mail", **fields):
    return Job(id=str(job_id), entrypoint=entrypoint, created_at=NOW, **fields)


def limited(**limits):
    state = QueueState()
    state.set_limits(Limits(**limits))
    return state


def governed(**limits):
    """Limits that apply to no job, so that only the dispatcher's work for them is seen."""
    return limited(entrypoints={"another": Limit(max_running=1)}, **limits)


@pytest.mark.parametrize("make", [QueueState, governed])
def test_entrypoints_that_were_asked_for_in_vain_are_forgotten(make):
    state = make()
    for number in range(4000):
        assert state.apply(Dequeue(f"name-{number}", 1, "t", NOW)) == []
        assert state.apply(Dequeue((f"name-{number}", f"other-{number}"), 1, "t", NOW)) == []
    assert state._table.ready.entries + state._dispatcher.entries < 300


@pytest.mark.parametrize("make", [QueueState, governed])
@pytest.mark.parametrize("wanted", [None, "own"])
def test_entrypoints_that_come_and_go_leave_nothing_behind(make, wanted):
    state = make()
    for number in range(4000):
        name = f"name-{number}"
        state.enqueue(new(number, name))
        [job] = state.apply(Dequeue(name if wanted else None, 1, "t", NOW))
        state.ack(Claim.of(job), NOW)
    assert state._table.ready.entries + state._dispatcher.entries < 300
    assert not state._table.running
    assert state._table.changed is None or len(state._table.changed) < 10


@pytest.mark.parametrize("make", [QueueState, governed])
def test_a_job_that_is_debounced_again_and_again_takes_the_room_of_one(make):
    state = make()
    for number in range(5000):
        job = new(number, key="k", status=JobStatus.SCHEDULED, run_at=LATER)
        state.enqueue(job, "replace")
    assert len(state._table.due) < 200


def test_parked_jobs_that_are_debounced_take_the_room_of_one():
    state = limited(limit_keys={"gpu": Limit(max_running=1)})
    state.enqueue(new("running", limit_key="gpu"))
    assert state.dequeue(None, "t", NOW) is not None
    for number in range(5000):
        state.enqueue(new(number, key="k", limit_key="gpu"), "replace")
        assert state.dequeue(None, "t", NOW) is None
    assert state._dispatcher.entries < 500
    assert state._dispatcher.parked < 200


def test_jobs_that_were_searched_for_in_vain_are_forgotten():
    state = QueueState()
    jobs = [state.enqueue(new(f"{number:05}")) for number in range(40)]
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    segment, content = writer.finish("backlog/000000000001-00000000000000aa.json")
    state.spill(segment, jobs)
    state.shelf.put(segment, content)
    for number in range(12_000):
        state.shelf.serve(None)
        assert state.look_up(f"00001-{number}") is None
    assert state.shelf.entries <= 10_000


@pytest.mark.parametrize("wanted", [None, tuple(f"e{number}" for number in range(500))])
def test_the_jobs_in_the_file_are_sorted_once_for_many_entrypoints(monkeypatch, wanted):
    state = governed()
    for number in range(1000):
        state.enqueue(new(number, f"e{number % 500}"))
    passes = []
    build = ReadyLine._build
    monkeypatch.setattr(ReadyLine, "_build", lambda self, names: passes.append(1) or build(self, names))
    assert len(state.apply(Dequeue(wanted, 100, "t", NOW))) == 100
    assert len(passes) <= 3


@pytest.mark.parametrize("entrypoints", [100, 4000])
def test_a_claim_looks_at_few_entrypoints_however_many_have_jobs(monkeypatch, entrypoints):
    state = governed(paused=("quiet",))
    for number in range(entrypoints):
        state.enqueue(new(number, f"e{number}"))
    state.apply(Dequeue(None, 1, "t", NOW))
    looks = []
    head = Dispatcher._head
    monkeypatch.setattr(Dispatcher, "_head", lambda self, *args: looks.append(1) or head(self, *args))
    for number in range(20):
        state.enqueue(new(f"more-{number}", "e0"))
        [job] = state.apply(Dequeue(None, 1, "t", NOW))
        state.ack(Claim.of(job), NOW)
    assert len(looks) <= 20 * 6


def test_a_claim_looks_at_few_segments_however_many_entrypoints_have_one(monkeypatch):
    state = governed()
    for number in range(500):
        writer = SegmentWriter()
        for place in (1, 2, 3):
            writer.add(new(f"{number}-{place}", f"e{number}", sequence=place))
        segment, content = writer.finish(f"backlog/000000000000-{number:016x}.json")
        state.enqueue_segments([segment])
        state.shelf.put(segment, content)
    state.apply(Dequeue(None, 1, "t", NOW))
    looks = []
    head = Dispatcher._head
    monkeypatch.setattr(Dispatcher, "_head", lambda self, *args: looks.append(1) or head(self, *args))
    claimed = state.apply(Dequeue(None, 100, "t", NOW))
    assert [job.sequence for job in claimed] == list(range(2, 102))
    assert len(looks) <= 100 * 6


def test_the_first_of_all_entrypoints_is_still_next_when_limits_and_times_change():
    state = limited(entrypoints={"a": Limit(max_running=1), "r": Limit(rate=1.0, burst=1)})
    names = ["a", "a", "b", "r", "r", "b"]
    for number, name in enumerate(names):
        state.enqueue(new(number, name))

    def claim(now=NOW):
        return [job.id for job in state.apply(Dequeue(None, 1, "t", now))]

    assert claim() == ["0"]
    assert claim() == ["2"], "one job of a runs"
    assert claim() == ["3"]
    assert claim() == ["5"], "r waits for a token"
    assert claim() == []
    state.ack(Claim("0", "t"), NOW)
    assert claim() == ["1"]
    assert claim(NOW + timedelta(seconds=2)) == ["4"]
    state.enqueue(new("urgent", "b", priority=-1))
    state.enqueue(new("late", "b"))
    assert claim(LATER) == ["urgent"]
    assert isinstance(state.apply(Dequeue(("b", "r"), 1, "t", LATER))[0], Job)


def test_a_claimed_segment_counts_for_the_limit_of_its_entrypoint():
    state = QueueState()
    writer = SegmentWriter()
    writer.add(new("a", "bulk", sequence=1))
    segment, _ = writer.finish("backlog/000000000000-00000000000000aa.json")
    state.enqueue_segments([segment])
    assert isinstance(state.claim_segment("bulk", "t", NOW), Segment)
    state.enqueue(new("b", "bulk"))
    state.set_limits(Limits(entrypoints={"bulk": Limit(max_running=1)}))
    assert state.apply(Dequeue(None, 1, "t2", NOW)) == []
    state.release_segment(next(iter(state.backlog.held())))
    state.shelf.put(segment, writer.finish(segment.name)[1])
    assert len(state.apply(Dequeue(None, 1, "t2", NOW))) == 1
