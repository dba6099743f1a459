"""Every operation makes progress, however much of the backlog it needs and however little fits into memory.

The cache holds the two segments that were read last. Between two tries of an operation all others are gone,
as if other callers had needed theirs meanwhile.
"""

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bucketq import BucketQError, Job, JobStatus, QueueState, Settings
from bucketq.backlog import SegmentNeededError
from bucketq.batches import JobBatch, NamedBatch
from bucketq.job import Claim
from bucketq.limits import Limit
from bucketq.loads import LoadMark
from bucketq.operation import (
    Ack,
    AckMany,
    Adopt,
    Answers,
    Batch,
    Beat,
    Bury,
    Count,
    Crash,
    Dequeue,
    DequeueSegment,
    Elect,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    HeartbeatMany,
    HeartbeatSegment,
    ListInFile,
    Load,
    LookUp,
    Nack,
    Operation,
    Refresh,
    Refuse,
    Release,
    ReleaseSegment,
    RequeueSilent,
    SettleSegment,
    StepDown,
    Transact,
    Wake,
    questions_of,
    wakes_of,
)
from bucketq.operation.chores import (
    Collect,
    DropArchived,
    Expire,
    ForgetExpired,
    Merge,
    ReadLedger,
    Seal,
    SortOut,
    Spill,
)
from bucketq.operation.limits import Pause, ReadLimits, Resume, SetLimit
from bucketq.operation.schedules import Fire, ListSchedules, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.schedule import Schedule
from bucketq.segment import DueSegment, SegmentKeys, key_of
from bucketq.segment_claim import CompletedJobs, given_back
from bucketq.segment_lines import SegmentLines, SegmentWriter
from bucketq.shelf import Findings, Shelf
from bucketq.state.backlog import WaitingPart
from bucketq.turns import dealt

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
# So many segments of each kind.
SEGMENTS = 4
PER_SEGMENT = 3


class Backlogged:
    """A state of which nearly all is in segments, each with a few jobs, and the objects beside it."""

    def __init__(self):
        self.state = QueueState()
        self.state.archives = True
        self.state.settings = Settings(hot_jobs_max=4, hot_bytes_max=2000, segment_jobs_max=PER_SEGMENT)
        self.contents = {}
        self.tokens = 0
        self.ids = {"queued": [], "scheduled": [], "dead": [], "running": [], "completed": []}
        for number in range(SEGMENTS):
            self._spill("queued", f"e{number}", key=True)
            self._spill("scheduled", f"e{number}", status=JobStatus.SCHEDULED, run_at=NOW)
            self._spill("dead", f"e{number}", status=JobStatus.DEAD)
            self._complete(f"done{number}")
        self.claims = [self._claim_segment(f"plain{number}") for number in range(SEGMENTS)]
        for _ in range(3):
            self.state.enqueue(self.new("file"))
            self.ids["running"].append(self.state.dequeue("file", "t", NOW).id)

    def new(self, entrypoint, **fields):
        self.tokens += 1
        return Job(id=f"{self.tokens:08}", entrypoint=entrypoint, created_at=NOW, **fields)

    def write(self, jobs):
        writer = SegmentWriter()
        for job in jobs:
            writer.add(job)
        self.tokens += 1
        segment, content = writer.finish(f"backlog/000000000000-{self.tokens:016x}.json")
        self.contents[segment.name] = content
        if segment.keys:
            self.contents[SegmentKeys(segment).name] = writer.keys_content
        return segment

    def _spill(self, kind, entrypoint, *, key=False, **fields):
        jobs = []
        for number in range(PER_SEGMENT):
            job = self.new(entrypoint, priority=(PER_SEGMENT - number) % 2, **fields)
            if key:
                job = replace(job, key=f"key-{job.id}")
            jobs.append(self.state.enqueue(job))
            self.ids[kind].append(job.id)
        if kind == "dead":
            self.state.dead_total += PER_SEGMENT
        assert self.state.spill([(self.write(sorted(jobs, key=key_of)), jobs)]) == []
        self._cache([])

    def _claim_segment(self, entrypoint):
        jobs = [self.new(entrypoint, sequence=place) for place in range(1, PER_SEGMENT + 1)]
        self.state.enqueue_segments([self.write(jobs)])
        return DequeueSegment(entrypoint, f"token-{entrypoint}", NOW)(self.state)

    def _complete(self, entrypoint):
        claim = self._claim_segment(entrypoint)
        completed = CompletedJobs()
        for job in claim.jobs(self.contents[claim.segment.name]):
            completed.add(job, NOW)
            self.ids["completed"].append(job.id)
        self.tokens += 1
        [(part, content)] = completed.finish(0, lambda: f"{self.tokens:016x}")
        self.contents[part.name] = content
        self.state.settle_segment(claim.claim, [part], [], [], NOW)

    def run(self, operation):
        """Apply an operation as the engine does, with a cache of two segments; return its outcome."""
        findings, recent, asked_for = Findings(questions_of(operation)), [], []
        while len(asked_for) < 4 * len(self.contents):
            self._cache(recent)
            self.state.shelf.serve(findings)
            try:
                answer = self.state.apply(operation)
            except SegmentNeededError as error:
                for wake in wakes_of(operation):
                    self.state.apply(wake)
                needed = error.segments[0]
                findings.defer(needed)
                asked_for.append(needed.name)
                if isinstance(needed, DueSegment):
                    self._sort_out(needed.name)
                else:
                    recent = [*recent[-1:], needed]
                continue
            except BucketQError as error:
                answer = error
            if isinstance(operation, Dequeue) and answer is None:
                # Its caller asks again, as a new operation.
                findings = Findings()
                asked_for.append("again")
                continue
            if isinstance(operation, Batch) and isinstance(answer, Answers):
                # The same with the dequeues of a batch.
                for part, outcome in zip(operation.operations, answer.answers, strict=True):
                    if isinstance(part, Dequeue) and outcome is None:
                        self.run(part)
            assert self.state.is_conserved()
            return answer
        raise AssertionError(f"{operation} is tried again and again, for {asked_for[-6:]}")

    def _cache(self, needed):
        """Let the cache hold these, and the fingerprints of unique keys, which it always keeps."""
        self.state.shelf = Shelf(2 * max(map(len, self.contents.values())))
        for segment in self.state.backlog.keyed():
            self.state.shelf.put(SegmentKeys(segment), self.contents[SegmentKeys(segment).name])
        for one in needed:
            self.state.shelf.put(one, self.contents[one.name])

    def _sort_out(self, name):
        # As it stands now: jobs may have been taken out of it by a try that was undone.
        segment = next(one for one in self.state.backlog if one.name == name)
        lines = SegmentLines(segment, self.contents[segment.name])
        due = [replace(job, status=JobStatus.QUEUED) for job in lines.jobs(segment)]
        parts = [
            WaitingPart(self.write(jobs), ahead, last) for jobs, ahead, last in dealt(due, self.state.turns)
        ]
        assert self.state.apply(SortOut(segment, tuple(parts), ())) == []


class Operations:
    """One of each kind of operation; those that look for jobs look for many, all over the backlog."""

    def __init__(self, world, draw):
        self.world = world
        self.draw = draw

    def some(self, *kinds):
        ids = [job_id for kind in kinds for job_id in self.world.ids[kind]]
        return self.draw(st.permutations(ids))[: 2 * SEGMENTS]

    def one(self, *kinds):
        return self.some(*kinds)[0]

    def claim(self):
        return Claim(self.one("running"), "t")

    def segment_claim(self):
        return self.draw(st.sampled_from(self.world.claims))

    def enqueue(self):
        waiting = [self.world.new("e0", after=(one,)) for one in self.some("scheduled", "completed")]
        doubles = [self.world.new("e0", key=f"key-{one}") for one in self.some("queued")]
        return Enqueue((*waiting, *doubles), self.draw(st.sampled_from(["return", "replace"])))

    def dequeue(self):
        wanted = self.draw(st.sampled_from([None, "e0", ("e1", "e2", "e3", "e4")]))
        return Dequeue(wanted, self.draw(st.sampled_from([1, 5])), "token", LATER)

    def settle_many(self):
        where = {
            job.id: segment.name
            for segment in self.world.state.backlog
            if segment.status is JobStatus.DEAD
            for job in SegmentLines(segment, self.world.contents[segment.name]).jobs(segment)
        }
        redrives = [Redrive(one, f"new-{one}", NOW, where[one]) for one in self.some("dead") if one in where]
        return SettleMany(tuple(redrives))

    def settle_segment(self, claim=None):
        """Some jobs have failed, and others were not begun. Others wait for each of them."""
        claim = claim or self.segment_claim()
        jobs = claim.jobs(self.world.contents[claim.claim.job_id])
        for job in jobs:
            self.world.run(Enqueue((self.world.new("child", after=(job.id,)),)))
        begun = self.draw(st.integers(0, PER_SEGMENT))
        rest = [self.world.write(given_back([job])) for job in jobs[begun:]]
        failed = [Nack(Claim.of(job), "boom", NOW) for job in jobs[:begun]]
        return SettleSegment(claim.claim, (), tuple(failed), tuple(rest), NOW)

    def new_segment(self):
        return self.world.write([self.world.new("bulk", sequence=place) for place in (1, 2, 3)])

    def build(self):
        """By the kind of operation, a function that makes one."""
        schedule = Schedule(name="s", cron="* * * * *", job=self.world.new("e0"))
        scheduled = [one for one in self.world.state.backlog if one.status is JobStatus.SCHEDULED]
        beat = Heartbeat(self.claim(), NOW)
        return {
            Refresh: Refresh,
            Count: Count,
            Find: lambda: Find(self.one("queued")),
            Enqueue: self.enqueue,
            EnqueueSegments: lambda: EnqueueSegments((self.new_segment(),)),
            EnqueueBatch: lambda: EnqueueBatch(self.world.new("then"), self.enqueue(), NOW),
            FindBatch: lambda: FindBatch("batch"),
            LookUp: lambda: LookUp(self.one("queued", "scheduled", "dead", "completed")),
            Load: lambda: Load("load", LoadMark(1), self.enqueue()),
            Adopt: lambda: Adopt(
                "import",
                1,
                (*self.enqueue().jobs, NamedBatch("b", JobBatch(total=1, left=1, then=None))),
                NOW,
            ),
            Dequeue: self.dequeue,
            Wake: lambda: Wake(None, LATER),
            Ack: lambda: Ack(self.claim(), NOW),
            AckMany: lambda: AckMany((self.claim(),), NOW),
            Nack: lambda: Nack(self.claim(), "boom", NOW),
            Bury: lambda: Bury(self.claim(), "boom", NOW),
            Crash: lambda: Crash(self.claim(), NOW),
            Heartbeat: lambda: beat,
            HeartbeatMany: lambda: HeartbeatMany((beat,)),
            Release: lambda: Release((self.claim(),)),
            RequeueSilent: lambda: RequeueSilent(LATER, LATER),
            DequeueSegment: lambda: DequeueSegment("e0", "token", LATER),
            HeartbeatSegment: lambda: HeartbeatSegment(self.segment_claim().claim, NOW),
            SettleSegment: self.settle_segment,
            ReleaseSegment: lambda: ReleaseSegment(self.segment_claim().claim),
            Cancel: lambda: Cancel(self.one("queued", "scheduled"), NOW),
            Redrive: lambda: Redrive(self.one("dead"), "new", NOW),
            Discard: lambda: Discard(self.one("dead")),
            SettleMany: self.settle_many,
            Spill: lambda: Spill(()),
            Merge: lambda: Merge((scheduled[0],), (scheduled[0],)),
            SortOut: lambda: SortOut(scheduled[0], (), (scheduled[0],)),
            Seal: lambda: Seal(LATER),
            DropArchived: lambda: DropArchived(tuple(self.world.state.ledger.sealed)),
            Expire: lambda: Expire(("2026-01-01",)),
            ForgetExpired: lambda: ForgetExpired(("2026-01-01",)),
            ReadLedger: ReadLedger,
            Collect: lambda: Collect(1),
            PutSchedule: lambda: PutSchedule(schedule, NOW),
            RemoveSchedule: lambda: RemoveSchedule("s"),
            ListSchedules: ListSchedules,
            Fire: lambda: Fire(LATER),
            Transact: lambda: Transact((self.enqueue(), self.enqueue())),
            ListInFile: lambda: ListInFile(None, None),
            Refuse: lambda: Refuse(BucketQError("no"), None),
            Elect: lambda: Elect("b", "host:1", None, NOW),
            Beat: lambda: Beat("b", NOW),
            StepDown: lambda: StepDown("b"),
            Batch: self.batch,
            Pause: lambda: Pause("e9"),
            Resume: lambda: Resume("e9"),
            SetLimit: lambda: SetLimit(None, "gpu", Limit(max_running=1)),
            ReadLimits: ReadLimits,
        }

    def batch(self):
        lookups = map(LookUp, self.some("queued", "scheduled", "dead", "completed"))
        settlements = map(self.settle_segment, self.world.claims[:3])
        operations = (*lookups, self.dequeue(), self.enqueue(), *settlements, self.dequeue())
        return Batch("client", 1, 0, operations, NOW)


KINDS = get_args(Operation)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(KINDS))
def test_an_operation_is_answered_after_a_bounded_number_of_tries(data, kind):
    world = Backlogged()
    world.run(Operations(world, data.draw).build()[kind]())


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_operations_that_look_for_many_jobs_are_answered_one_after_the_other(data):
    world = Backlogged()
    for _ in range(4):
        operations = Operations(world, data.draw)
        kind = data.draw(st.sampled_from([Enqueue, Dequeue, Batch, Transact, SettleMany, LookUp]))
        world.run(operations.build()[kind]())


def test_a_batch_finds_jobs_all_over_the_backlog():
    world = Backlogged()
    ids = [*world.ids["queued"], *world.ids["scheduled"], *world.ids["completed"]]
    answers = world.run(Batch("client", 1, 0, tuple(map(LookUp, ids)), NOW)).answers
    waiting = ids[: -len(world.ids["completed"])]
    assert [one.id for one in answers[: len(waiting)]] == waiting
    assert all(one.succeeded for one in answers[len(waiting) :])
