"""Claims on whole segments, as pure transitions: which can be claimed, and what a settlement does."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from bucketq import (
    ClaimLostError,
    ConfigurationError,
    CorruptStateError,
    Job,
    JobStatus,
    QueueState,
    Settings,
    StorageError,
)
from bucketq.backlog import Backlog, SegmentNeededError
from bucketq.codec import decode, encode
from bucketq.job import Claim
from bucketq.ledger import StagedPart
from bucketq.limits import Limit, Limits
from bucketq.operation import Batch, Crash, Dequeue, DequeueSegment, LookUp, Nack, SettleSegment
from bucketq.segment import Hold, is_plain
from bucketq.segment_claim import CompletedJobs, SegmentClaim, given_back
from bucketq.segment_lines import SegmentLines, SegmentWriter
from bucketq.shelf import Findings, Shelf
from bucketq.stale import StaleWatch

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


class Loaded:
    """A state with one segment of three jobs, `a`, `b` and `c`, and what its holder does."""

    def __init__(self, **options):
        self.state = QueueState()
        self.state.archives = True
        self.jobs = [
            Job(id=job_id, entrypoint="mail", created_at=NOW, sequence=place, **options)
            for place, job_id in enumerate("abc", 1)
        ]
        [segment], [self.content] = zip(segment_of(self.jobs, "aa"), strict=True)
        self.state.enqueue_segments([segment])
        self.claim = None

    def claimed(self):
        self.claim = DequeueSegment("mail", "token-1", NOW, "host:1")(self.state)
        assert self.claim is not None
        return self.claim.jobs(self.content)

    def read(self):
        [segment] = self.state.backlog
        self.state.shelf.put(segment, self.content)

    def settle(self, completed=(), failed=(), rest=()):
        parts = [staged(jobs, token) for token, jobs in enumerate(completed)]
        settlement = SettleSegment(self.claim.claim, tuple(parts), tuple(failed), tuple(rest), LATER)
        return self.state.apply(settlement)


def segment_of(jobs, token):
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    return writer.finish(f"backlog/000000000000-00000000000000{token}.json")


def staged(jobs, token=0):
    completed = CompletedJobs()
    for job in jobs:
        completed.add(job, LATER)
    [(part, _)] = completed.finish(0, lambda: f"{token:016x}")
    return part


def nack(job):
    return Nack(Claim.of(job), "boom", LATER)


def test_a_segment_is_claimed_without_being_read():
    loaded = Loaded()
    claim = loaded.state.claim_segment("mail", "token-1", NOW, "host:1")
    assert claim is not None
    assert loaded.state.stats[:2] == (0, 3)
    assert loaded.state.is_conserved()
    assert loaded.state.claim_segment("mail", "token-2", NOW) is None
    assert loaded.state.dequeue("mail", "token-3", NOW) is None


@pytest.mark.parametrize(
    "special",
    [
        {"key": "k"},
        {"limit_key": "gpu"},
        {"tenant": "acme"},
        {"timeout_s": 1.0},
        {"expires_at": LATER},
        {"batch": "album"},
        {"payload_object": "payloads/000000000000-00000000000000aa", "payload_size": 7},
        {"max_crashes": 1},
        {"attempts": 1},
        {"turn": 1},
        {"status": JobStatus.SCHEDULED, "run_at": LATER},
    ],
    ids=lambda special: next(iter(special)),
)
def test_a_segment_with_a_special_job_is_not_claimed_as_a_whole(special):
    plain = Job(id="a", entrypoint="mail", created_at=NOW, sequence=1, max_attempts=9, redrive_of="z")
    odd = replace(plain, id="b", sequence=2, **special)
    assert is_plain(plain)
    assert not is_plain(odd)
    assert [segment_of(jobs, "aa")[0].plain for jobs in ([plain], [plain, odd])] == [True, False]


def test_no_job_is_passed_over():
    loaded = Loaded()
    [segment] = loaded.state.backlog
    between = replace(loaded.jobs[0], id="between", sequence=2)
    others = [
        ("in queue.json", lambda state: state.enqueue(replace(between, priority=-1))),
        ("in a segment", lambda state: state.enqueue_segments([segment_of([between], "bb")[0]])),
    ]
    for where, add in others:
        state = decode(encode(loaded.state))
        add(state)
        # As if it had come before the last of the segment.
        [held] = [one for one in state.backlog if one.name == segment.name]
        stretched = replace(held, last=(0, 0, 99))
        state.backlog = state.backlog.replaced([held], [stretched])
        assert state.claim_segment("mail", "token-1", NOW) is None, where


def test_limits_pauses_and_tenants_have_a_say():
    for limits in (
        Limits().with_pause("mail"),
        Limits().with_pause(None),
        Limits().with_limit("mail", None, Limit(max_running=100)),
    ):
        loaded = Loaded()
        loaded.state.set_limits(limits)
        assert loaded.state.claim_segment("mail", "token-1", NOW) is None
    loaded = Loaded()
    loaded.state.enqueue(Job(id="x", entrypoint="mail", tenant="acme", created_at=NOW))
    assert loaded.state.claim_segment("mail", "token-1", NOW) is None


def test_jobs_of_a_claimed_segment_count_as_running_when_a_limit_comes():
    loaded = Loaded()
    loaded.claimed()
    loaded.state.enqueue(Job(id="x", entrypoint="mail", created_at=NOW))
    loaded.state.set_limits(Limits().with_limit("mail", None, Limit(max_running=3)))
    assert loaded.state.dequeue("mail", "token-2", NOW) is None
    loaded.settle([loaded.claim.jobs(loaded.content)])
    job = loaded.state.dequeue("mail", "token-2", NOW)
    assert job is not None
    assert job.id == "x"


def test_the_jobs_carry_the_claim():
    loaded = Loaded()
    for job in loaded.claimed():
        assert (job.status, job.attempts, job.token) == (JobStatus.IN_PROGRESS, 1, "token-1")
        assert (job.worker, job.claimed_at, job.heartbeat_at) == ("host:1", NOW, NOW)
    assert given_back(reversed(loaded.claim.jobs(loaded.content))) == [
        replace(job, sequence=place) for place, job in enumerate(loaded.jobs, 1)
    ]


def test_no_job_is_claimed_before_it_was_made_nor_finished_before_it_was_claimed():
    loaded = Loaded()
    claim = DequeueSegment("mail", "token-1", NOW - timedelta(hours=1))(loaded.state)
    [job, *_] = claim.jobs(loaded.content)
    assert job.claimed_at == NOW
    completed = CompletedJobs()
    completed.add(job, NOW - timedelta(hours=2))
    [(part, _)] = completed.finish(0, lambda: "00000000000000aa")
    assert part.hour == "2026-01-01T12"
    loaded.state.requeue_stale_segment(claim.claim, NOW - timedelta(hours=1))
    loaded.read()
    job = loaded.state.dequeue("mail", "token-2", NOW)
    assert (job.history[0].claimed_at, job.history[0].ended_at, job.claimed_at) == (NOW, NOW, NOW)


def test_completed_jobs_are_parts_of_the_batches_of_their_hours():
    loaded = Loaded()
    first, second, third = loaded.claimed()
    completed = CompletedJobs()
    for job, now in ((first, NOW), (second, NOW), (third, NOW + timedelta(hours=1))):
        completed.add(job, now, b"1")
    parts = completed.finish(0, iter(["00000000000000aa", "00000000000000bb"]).__next__)
    for part, content in parts:
        assert len(part.lines(content)) == part.count
    completed = tuple(part for part, _ in parts)
    SettleSegment(loaded.claim.claim, completed, (), (), LATER)(loaded.state)
    sealed = loaded.state.ledger.sealed
    assert {name: (batch.total, batch.lines) for name, batch in sealed.items()} == {
        "archive/2026-01-01T12/000000000001.json": (2, ()),
        "archive/2026-01-01T13/000000000001.json": (1, ()),
    }
    assert loaded.state.object_names() == {part.name for part in completed}
    assert decode(encode(loaded.state)).ledger.sealed == sealed
    for name in sealed:
        loaded.state.drop_archived(name)
    assert loaded.state.ledger.archived == {"2026-01-01": 3}
    assert {part.name for part in completed} < set(loaded.state.dropped)


def test_a_settlement_with_failures_waits_for_the_segment_to_be_read():
    loaded = Loaded()
    first, second, third = loaded.claimed()
    with pytest.raises(SegmentNeededError):
        loaded.settle([[first]], [nack(second), Crash(Claim.of(third), LATER)])
    loaded.read()
    loaded.settle([[first]], [nack(second), Crash(Claim.of(third), LATER)])
    assert [(job.id, job.attempts, job.crashes) for job in loaded.state.queued_jobs()] == [
        ("b", 1, 0),
        ("c", 1, 1),
    ]
    assert loaded.state.is_conserved()


def test_a_settlement_that_is_refused_leaves_everything_as_it_was():
    loaded = Loaded()
    first, second, third = loaded.claimed()
    loaded.read()
    before = encode(loaded.state)
    dead_already = Nack(Claim("b", "another token"), "boom", LATER)
    [foreign], _ = zip(segment_of([replace(third, id="z", sequence=9)], "bb"), strict=True)
    [claimed_rest], _ = zip(segment_of([third], "cc"), strict=True)
    refused = [
        ([[first, second]], (), ()),
        ([[first, second, third]], [nack(third)], ()),
        ([[first]], [nack(second), nack(second)], ()),
        ([[first, second]], [nack(replace(third, id="x"))], ()),
        ([[first, third]], [dead_already], ()),
        ([[first, second]], (), [foreign]),
        ([[first, second]], (), [claimed_rest]),
    ]
    for completed, failed, rest in refused:
        with pytest.raises((ConfigurationError, ClaimLostError)):
            loaded.settle(completed, failed, rest)
        assert encode(loaded.state) == before
        assert loaded.state.dropped == []
    loaded.state.collected_version = 1
    with pytest.raises(StorageError, match="collected"):
        loaded.settle([[first, second, third]])


def test_a_job_that_was_enqueued_twice_fails_no_commit_of_others():
    loaded = Loaded()
    first, second, third = loaded.claimed()
    loaded.read()
    loaded.state.enqueue(Job(id="b", entrypoint="mail", created_at=NOW))
    with pytest.raises(ConfigurationError, match="job b was enqueued twice"):
        loaded.settle([[first, third]], [nack(second)])
    assert loaded.state.is_conserved()


def test_many_failures_are_settled_by_one_look_at_their_segment(monkeypatch):
    searches = []
    search = SegmentLines.find
    monkeypatch.setattr(SegmentLines, "find", lambda *job: searches.append(job) or search(*job))
    state = QueueState()
    jobs = [Job(id=f"{n:05}", entrypoint="mail", created_at=NOW, sequence=n) for n in range(1, 501)]
    segment, content = segment_of(jobs, "aa")
    state.enqueue_segments([segment])
    claim = DequeueSegment("mail", "token-1", NOW)(state)
    state.shelf.put(segment, content)
    failed = tuple(map(nack, claim.jobs(content)))
    state.apply(SettleSegment(claim.claim, (), failed, (), LATER))
    assert not searches, "each goes through all of its lines"
    assert state.stats[:2] == (500, 0)


def test_what_a_batch_staged_is_taken_back_if_the_batch_has_to_wait():
    loaded = Loaded()
    jobs = loaded.claimed()
    other = segment_of([replace(loaded.jobs[0], id="d", entrypoint="other")], "bb")[0]
    loaded.state.enqueue_segments([other])
    before = encode(loaded.state)
    settle = SettleSegment(loaded.claim.claim, (staged(jobs),), (), (), LATER)
    batch = Batch("client", 1, 0, (settle, LookUp("d")), LATER)
    with pytest.raises(SegmentNeededError):
        loaded.state.apply(batch)
    assert encode(loaded.state) == before
    assert loaded.state.ledger.sealed == {}


def test_a_dequeue_that_needs_a_segment_does_not_hold_up_the_rest_of_its_batch():
    loaded = Loaded()
    jobs = loaded.claimed()
    other = segment_of([replace(loaded.jobs[0], id="d", entrypoint="other")], "bb")[0]
    loaded.state.enqueue_segments([other])
    settle = SettleSegment(loaded.claim.claim, (staged(jobs),), (), (), LATER)
    dequeue = Dequeue("other", 1, "token-2", LATER)
    batch = Batch("client", 1, 0, (settle, dequeue), LATER)
    with pytest.raises(SegmentNeededError):
        loaded.state.apply(batch)
    assert loaded.state.completed_total == 0, "one segment is waited for"
    findings = Findings(deferrals_max=1)
    findings.defer(other)
    loaded.state.shelf.serve(findings)
    assert loaded.state.apply(batch).answers == [None, None], "its caller asks again"
    assert loaded.state.completed_total == 3
    loaded.state.shelf.serve(None)
    with pytest.raises(SegmentNeededError):
        loaded.state.apply(Batch("client", 2, 0, (dequeue,), LATER))


def test_a_batch_that_is_sent_again_is_told_the_claim_again():
    loaded = Loaded()
    batch = Batch("client", 1, 0, (DequeueSegment("mail", "token-1", NOW),), NOW)
    first = loaded.state.apply(batch).answers
    assert isinstance(first[0], SegmentClaim)
    assert loaded.state.apply(batch).answers == first
    settle = SettleSegment(first[0].claim, (staged(first[0].jobs(loaded.content)),), (), (), LATER)
    settling = Batch("client", 2, 0, (settle,), LATER)
    assert loaded.state.apply(settling).answers == [None]
    assert loaded.state.apply(settling).answers == [None]
    assert loaded.state.stats.completed_total == 3


def test_a_claim_is_stale_when_its_heartbeat_stands_still():
    loaded = Loaded()
    loaded.claimed()
    watch = StaleWatch(stale_after_s=10)
    watch.observe_all(loaded.state, 0)
    assert watch.stale_segments(loaded.state, 9) == []
    # A clock that was set back: the stamp grows all the same.
    loaded.state.heartbeat_segment(loaded.claim.claim, NOW - timedelta(hours=1))
    watch.observe(loaded.state, (), 9)
    loaded.state.enqueue_segments([segment_of([replace(loaded.jobs[0], id="d", sequence=1)], "bb")[0]])
    watch.observe(loaded.state, (), 15)
    assert watch.stale_segments(loaded.state, 18) == []
    assert watch.stale_segments(loaded.state, 19) == [loaded.claim.claim]
    loaded.state.release_segment(loaded.claim.claim)
    assert watch.stale_segments(loaded.state, 99) == []


def test_an_outage_is_not_held_against_the_holder_of_a_segment():
    loaded = Loaded()
    loaded.claimed()
    watch = StaleWatch(stale_after_s=10)
    watch.excuse(3)
    watch.observe_all(loaded.state, 0)
    watch.excuse(100)
    # Its timeout, the outage, and the time to be heard again.
    assert watch.stale_segments(loaded.state, 119) == []
    assert watch.stale_segments(loaded.state, 120) == [loaded.claim.claim]


def test_a_part_of_no_hour_is_no_part():
    entry = msgspec.json.encode(staged(Loaded().claimed()))
    assert msgspec.json.decode(entry, type=StagedPart).hour == "2026-01-01T12"
    for wrong in (b"2026-1-1T12", b"2026-01-01T25", b"../../2026"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(entry.replace(b"2026-01-01T12", wrong), type=StagedPart)


def test_claimed_segments_are_not_merged():
    segments = [
        segment_of([replace(job, id=f"{n}-{job.id}") for job in Loaded().jobs], f"{n:02}")[0]
        for n in range(6)
    ]
    assert Backlog(segments).worth_merging(Settings())
    hold = Hold(token="t", claimed_at=NOW, heartbeat_at=NOW)
    held = [replace(segment, status=JobStatus.IN_PROGRESS, hold=hold) for segment in segments]
    assert Backlog(held).worth_merging(Settings()) == []


def test_the_shelf_keeps_the_parts_that_are_on_their_way():
    completed = CompletedJobs()
    completed.add(Loaded().claimed()[0], NOW)
    [(part, content)] = completed.finish(0, lambda: "00000000000000aa")
    shelf = Shelf()
    shelf.put(part, content)
    shelf.keep_only([], [part])
    assert shelf.find_line(part, "a") is not None
    shelf.keep_only([], [])
    shelf.serve(None)
    with pytest.raises(SegmentNeededError):
        shelf.find_line(part, "a")
    shelf.miss(part)
    with pytest.raises(CorruptStateError, match="no such object"):
        shelf.find_line(part, "a")
