"""Where the features of a job meet: keys and expiry, delays and limits, endings and what is undone."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from bucketq import BrokerQueue, ConfigurationError, InMemoryStorage, Job, QueueState, Settings
from bucketq.archived_job import decode_archived
from bucketq.codec import decode, encode
from bucketq.fingerprint import fingerprint, pack
from bucketq.job import Claim, IfDead, JobStatus
from bucketq.limits import Limit
from bucketq.new_job import check_new_job
from bucketq.operation import Enqueue
from bucketq.schedule import Schedule
from bucketq.segment import SegmentKeys
from bucketq.segment_lines import SegmentWriter

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def new(job_id, entrypoint="mail", **fields):
    return Job(id=job_id, entrypoint=entrypoint, created_at=NOW, **fields)


def test_a_job_that_has_expired_does_not_hold_its_key():
    state = QueueState()
    state.enqueue(new("old", key="k", expires_at=NOW + MINUTE))
    later = replace(new("new", key="k"), created_at=NOW + 2 * MINUTE)
    assert state.enqueue(later).id == "new"
    assert (state.stats.cancelled_total, state.stats.queued) == (1, 1)
    assert state.dequeue(None, "t", NOW + 2 * MINUTE).id == "new"
    assert state.is_conserved()


def test_kept_keys_make_room_when_their_time_is_over():
    state = QueueState()
    state.settings = Settings(queue_bytes_max=10_000, hot_bytes_max=10_000)
    for number in range(60):
        state.enqueue(new(str(number), key=f"key of {number}", key_for_s=60.0))
        state.ack(Claim.of(state.dequeue(None, "t", NOW)), NOW)
        state.size = len(encode(state))
    state.size = 10_000
    state.enqueue(replace(new("later", key="other"), created_at=NOW + timedelta(days=30)))
    assert state.stats.queued == 1


@pytest.mark.parametrize("wrong", [{"timeout_s": -1.0}, {"key": "k", "key_for_s": -5.0}, {"timeout_s": 1e12}])
def test_what_could_not_be_read_again_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        check_new_job(new("a", **wrong))


def test_two_queues_do_not_share_their_rates():
    empty = encode(QueueState())
    first, second = decode(empty), decode(empty)
    for state in (first, second):
        state.set_limits(state.limits.with_limit("mail", None, Limit(rate=0.01)))
        state.enqueue(new("a"))
        assert state.dequeue("mail", "t", NOW) is not None


def test_what_is_undone_leaves_a_cancelled_job_as_it_was():
    state = QueueState()
    state.enqueue(new("a"))
    claim = Claim.of(state.dequeue(None, "t", NOW))
    state.cancel("a", NOW)
    before = state.find("a")

    def fail(state):
        state.requeue_stale(claim, NOW)
        raise ConfigurationError("after all")

    with pytest.raises(ConfigurationError):
        state.apply(fail)
    assert state.find("a") == before


def test_a_job_that_comes_again_after_an_undo_stands_at_its_new_place():
    state = QueueState()
    state.dequeue("mail", "t", NOW)  # so that there is a line

    def fail(state):
        state.enqueue(new("late"))
        raise ConfigurationError("not now")

    with pytest.raises(ConfigurationError):
        state.apply(fail)
    for job_id in ("first", "second", "late"):
        state.enqueue(new(job_id))
    assert [state.dequeue("mail", "t", NOW).id for _ in range(3)] == ["first", "second", "late"]


def test_new_jobs_in_segments_wait_or_are_scheduled():
    writer = SegmentWriter()
    writer.add(replace(new("a"), status=JobStatus.DEAD, sequence=1))
    segment, _ = writer.finish("backlog/000000000008-00000000000000bb.json")
    with pytest.raises(ConfigurationError, match="new jobs are queued or scheduled"):
        QueueState().enqueue_segments([segment])


def test_a_schedule_that_a_clock_far_ahead_has_fired_is_set_right_by_making_it_again():
    state = QueueState()
    beat = Schedule(name="beat", every_s=60.0, job=new("beat"), next_at=NOW + MINUTE)
    state.put_schedule(beat, NOW)
    state.fire(NOW + timedelta(days=365))
    assert state.schedules.next_at > NOW + timedelta(days=360)
    state.put_schedule(beat, NOW)
    assert state.schedules.next_at == NOW + MINUTE


async def test_due_jobs_of_one_entrypoint_come_though_many_of_others_wait():
    settings = Settings(hot_jobs_max=200, poll_interval_s=0.05)
    async with BrokerQueue(InMemoryStorage(), settings=settings) as q:
        await q.enqueue_many("b", range(300), delay=0.05)
        for number in range(10):
            await q.enqueue_many(f"other {number}", range(25))
        assert (await q.stats()).queued >= 200
        assert len(await q.dequeue("b", batch_size=300, wait=5)) > 0


@pytest.mark.parametrize("is_governed", [False, True])
def test_whoever_waits_is_woken_for_the_second_job_that_is_due_too(is_governed):
    state = QueueState()
    if is_governed:
        state.set_limits(state.limits.with_limit("elsewhere", None, Limit(max_running=1)))
    for entrypoint, minutes in (("a", 1), ("b", 2)):
        run_at = NOW + minutes * MINUTE
        state.enqueue(new(entrypoint, entrypoint, status=JobStatus.SCHEDULED, run_at=run_at))
    assert state.claimable("b", NOW) == 0
    assert state.claimable("b", NOW + 2 * MINUTE) > 0


def test_the_archive_tells_what_was_asked_of_a_job():
    state = QueueState()
    state.archives = True
    asked = {
        "key": "k",
        "tenant": "acme",
        "limit_key": "gpu",
        "run_at": NOW,
        "batch": "b",
        "redrive_of": "old",
    }
    state.enqueue(new("a", **asked))
    state.ack(Claim.of(state.dequeue(None, "t", NOW)), NOW)
    archived = decode_archived(state.ledger.finished[0].line)
    told = {name: getattr(archived, name) for name in ("key", "tenant", "limit_key", "run_at", "redrive_of")}
    assert told | {"batch": archived.job_batch} == asked


def test_a_parent_that_is_replaced_in_the_same_operation_blocks_nobody():
    state = QueueState()
    parent = state.enqueue(new("parent", key="k"))
    writer = SegmentWriter()
    writer.add(parent)
    segment, content = writer.finish("backlog/000000000008-00000000000000bb.json")
    state.spill([(segment, [parent])])
    [segment] = state.backlog
    state.shelf.put(segment, content)
    state.shelf.keys.put(SegmentKeys(segment), pack([fingerprint("k")]))
    children = [new(name, after=("parent",), if_dead=IfDead.RUN) for name in ("first", "second")]
    Enqueue((children[0], new("other", key="k"), children[1]), "replace")(state)
    assert [job.id for job in state.queued_jobs()] == ["first", "other", "second"]
    assert state.is_conserved()
