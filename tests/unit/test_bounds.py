"""What a long-lived process keeps in memory has a bound, and a claim costs the same with many entrypoints."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from bucketq import BrokerQueue, Job, JobNotFoundError, JobStatus, QueueState, Settings
from bucketq.backlog import Backlog
from bucketq.dispatch import _PASSED_MAX, Dispatcher, _Moments
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.operation import Ack, Dequeue, Enqueue, Transact
from bucketq.operation.chores import Spill
from bucketq.ready import ReadyLine
from bucketq.segment import Segment
from bucketq.segment_lines import Question, SegmentLines, SegmentWriter
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

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
    state.spill([(segment, jobs)])
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


def segment_of(jobs, number=0):
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    return writer.finish(f"backlog/000000000000-{number:016x}.json")


def test_filters_with_many_names_are_forgotten_before_they_take_much_memory():
    state = QueueState()
    for number in range(64):
        state.apply(Dequeue(tuple(f"{number}-{name}" for name in range(1000)), 1, "t", NOW))
    assert sum(map(len, state._table.ready.asked)) <= 2000


def test_failed_operations_leave_no_touched_jobs_behind():
    state = QueueState()
    kept = state.enqueue(new("kept"))
    for number in range(5000):
        failing = Transact((Enqueue((new(number),)), Ack(Claim("no", "t"), NOW)))
        with pytest.raises(JobNotFoundError):
            state.apply(failing)
    assert state.touched == {"kept": kept.sequence}


def test_a_job_that_was_touched_before_an_operation_failed_is_still_touched():
    state = QueueState()
    state.enqueue(new("a"))
    state.touched.clear()
    job = state.dequeue(None, "t", NOW)
    with pytest.raises(JobNotFoundError):
        state.apply(Transact((Ack(Claim.of(job), NOW), Ack(Claim("no", "t"), NOW))))
    assert state.touched == {"a": job.sequence}


def test_a_name_that_is_looked_at_earlier_and_earlier_takes_the_room_of_one():
    moments = _Moments()
    for number in range(5000):
        moments.put("gpu", LATER - timedelta(seconds=number))
    assert len(moments) < 200
    assert moments.pop(LATER) == ["gpu"]
    assert moments.pop(LATER) == []


def test_tenants_that_come_and_go_are_forgotten_without_a_dequeue():
    state = QueueState()
    for number in range(3000):
        state.enqueue(new(number, tenant=f"t{number}", key="k"), "replace")
    assert len(state._table.turned.left) < 10
    assert len(state.turns._handed_on) < 10
    for number in range(3000):
        state.cancel(state.enqueue(new(f"b{number}", tenant=f"t{number}")).id, NOW)
    assert len(state._table.turned.left) < 10
    assert sum(map(len, state.turns._last.values())) < 10


def test_the_turn_of_a_replaced_job_is_not_kept_for_one_that_never_comes():
    state = QueueState()
    state.enqueue(new("first", tenant="acme", key="k"))
    for number in range(100):
        replacing = Enqueue((new(number, tenant="acme", key="k"),), "replace")
        with pytest.raises(JobNotFoundError):
            state.apply(Transact((replacing, Ack(Claim("no", "t"), NOW))))
    assert state.turns._handed_on == {}


@virtual_time
async def test_segments_that_could_not_be_read_are_forgotten_after_a_while():
    storage = FaultyStorage()
    settings = Settings(hot_jobs_max=10, segment_jobs_max=10, retry_for_s=1)
    async with BrokerQueue(storage, settings=settings, clock=VirtualClock()) as q:
        for number in range(40):
            await q.enqueue_many(f"e{number}", range(40))
            await q.dequeue(f"e{number}", at_hand=True)
        await asyncio.sleep(100)
        upkeep = q._group._upkeep
        q._group._committer.shelf.keep_only([], [])

        async def fail(name):
            raise OSError("no")

        storage.objects.read = fail
        for _ in range(20):
            await q.enqueue("other")
            await asyncio.sleep(10)
        assert upkeep._unreadable
        del storage.objects.read
        await asyncio.sleep(100)
        await q.enqueue("other")
        assert not upkeep._unreadable


def test_so_many_places_are_kept_of_segments_that_were_passed_over(monkeypatch):
    monkeypatch.setattr("bucketq.dispatch._PASSED_MAX", 100)
    state = limited(limit_keys={"k*": Limit(max_running=0)})
    state.settings = Settings(hot_jobs_max=8, hot_bytes_max=8 * 200)
    for number in range(30):
        jobs = [new(f"{number}-{place}", limit_key=f"k{place}", sequence=place) for place in range(1, 21)]
        segment, content = segment_of(jobs, number)
        state.enqueue_segments([segment])
        state.shelf.put(segment, content)
    assert state.apply(Dequeue(None, 1, "t", NOW)) == []
    assert 100 <= state._dispatcher._passed.entries < 100 + 20
    assert _PASSED_MAX <= 100_000


def sorted_segments(number):
    """Segments of jobs that are due, each of another entrypoint."""
    later = {"status": JobStatus.SCHEDULED, "run_at": NOW}
    return [segment_of([new(name, f"e{name}", sequence=1, **later)], name)[0] for name in range(number)]


def replacements_of(monkeypatch):
    calls = []
    replaced = Backlog.replaced
    monkeypatch.setattr(Backlog, "replaced", lambda self, *args: calls.append(1) or replaced(self, *args))
    return calls


def test_sorted_segments_of_many_entrypoints_are_woken_in_one_go(monkeypatch):
    state = QueueState()
    state.enqueue_segments(sorted_segments(500))
    calls = replacements_of(monkeypatch)
    state.wake(LATER)
    assert len(calls) == 1
    assert state.stats.queued == 500


def test_jobs_of_many_entrypoints_go_to_segments_in_one_go(monkeypatch):
    state = QueueState()
    jobs = [state.enqueue(new(number, f"e{number}")) for number in range(500)]
    parts = tuple((segment_of([job], number)[0], (job,)) for number, job in enumerate(jobs))
    calls = replacements_of(monkeypatch)
    assert state.apply(Spill(parts)) == []
    assert len(calls) == 1
    assert state.stats.queued == len(state.backlog) == 500


def test_tenants_of_another_entrypoint_do_not_keep_a_sorted_segment_from_coming_into_line():
    state = QueueState()
    state.enqueue(new("a", "other", tenant="acme"))
    assert state.turns
    state.enqueue_segments(sorted_segments(2))
    state.wake(LATER)
    assert state.stats.scheduled == 0


@pytest.mark.parametrize("text", ["user-{}", '{{"user": {}}}', "tab\t{}", "back\\slash {}"])
def test_a_search_for_many_keys_looks_at_each_line_once(text):
    jobs = [new(number, sequence=number + 1, key=text.format(number)) for number in range(2000)]
    lines = SegmentLines(*segment_of(jobs))
    questions = [Question(text.format(number), "key") for number in range(1000, 3000)]
    began_s = time.process_time()
    found = lines.search(questions)
    # One after the other, they took a second.
    assert time.process_time() - began_s < 0.3
    assert {question.text: job.id for question, job in found.items()} == {
        job.key: job.id for job in jobs[1000:]
    }
