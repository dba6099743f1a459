"""Random walks of a state: most jobs wait for room for their limit keys, and few stay in queue.json."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from bucketq import Job, JobStatus, QueueState, Settings
from bucketq.backlog import SegmentNeededError
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.object_name import segment_name
from bucketq.operation import Dequeue, wakes_of
from bucketq.operation.chores import Merge, SortOut, Spill
from bucketq.operation.settlements import Cancel
from bucketq.segment import DueSegment, key_of
from bucketq.segment_lines import SegmentLines, SegmentWriter
from bucketq.shelf import Shelf
from bucketq.state.backlog import WaitingPart
from bucketq.turns import dealt

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [f"k{number}" for number in range(30)]
HOT_JOBS = 16
PER_SEGMENT = 20
# About the bytes of a job here.
JOB_BYTES = 200


class World:
    """A state, the objects beside it, and all that waits and runs, in a plain list."""

    def __init__(self, chance):
        self.chance = chance
        self.now = NOW
        self.contents = {}
        self.waiting, self.running = {}, {}
        self.state = QueueState()
        self.state.settings = Settings(
            hot_jobs_max=HOT_JOBS, hot_bytes_max=HOT_JOBS * JOB_BYTES, segment_jobs_max=PER_SEGMENT
        )
        self.state.set_limits(
            Limits(limit_keys={key: Limit(max_running=index % 3) for index, key in enumerate(KEYS)})
        )

    def run(self, operation):
        """Apply an operation as the engine does, with a cache of a few segments."""
        for _ in range(500):
            try:
                return self.state.apply(operation)
            except SegmentNeededError as error:
                for wake in wakes_of(operation):
                    self.state.apply(wake)
                needed = error.segments[0]
                if isinstance(needed, DueSegment):
                    self.sort_out(needed)
                else:
                    self.state.shelf.put(needed, self.contents[needed.name])
        raise AssertionError("it is tried again and again")

    def write(self, jobs):
        writer = SegmentWriter()
        for job in jobs:
            writer.add(job)
        segment, content = writer.finish(segment_name(1, f"{len(self.contents):016x}"))
        self.contents[segment.name] = content
        return segment, tuple(jobs)

    def cut(self, jobs):
        return [self.write(jobs[at : at + PER_SEGMENT]) for at in range(0, len(jobs), PER_SEGMENT)]

    def sort_out(self, due):
        [segment] = [one for one in self.state.backlog if one.name == due.name]
        jobs = list(SegmentLines(segment, self.contents[segment.name]).jobs(segment))
        places = {job.sequence: key_of(job) for job in jobs}
        rest = [job for job in jobs if key_of(job) > due.until]
        waiting = [replace(job, status=JobStatus.QUEUED) for job in jobs if key_of(job) <= due.until]
        parts = [
            (part, ahead, last, moved)
            for ahead_jobs, ahead, last in dealt(waiting, self.state.turns)
            for part, moved in self.cut(ahead_jobs)
        ]
        left = self.cut(rest)
        if self.chance.random() < 0.5:
            # Meanwhile somebody cancels one of them.
            self.cancel(self.chance.choice(jobs).id)
        stood = [*(moved for *_, moved in parts), *(moved for _, moved in left)]
        operation = SortOut(
            segment,
            tuple(WaitingPart(*part[:3]) for part in parts),
            tuple(part for part, _ in left),
            tuple(tuple(places[job.sequence] for job in moved) for moved in stood),
        )
        emptied = self.state.apply(operation)
        assert all(part.count == 1 for part in emptied), "but for a part whose only job left, all come in"

    def spill(self):
        parts = [part for line in self.state.overflow() for part in self.cut(line)]
        assert self.state.apply(Spill(tuple(parts))) == []

    def merge(self):
        old = self.state.backlog.worth_merging(self.state.settings)
        jobs = [job for one in old for job in SegmentLines(one, self.contents[one.name]).jobs(one)]
        if len(old) == 1 and len(jobs) > 2:
            # Meanwhile jobs leave it, perhaps the first.
            self.cancel(jobs[0].id)
            self.cancel(self.chance.choice(jobs[1:]).id)
        if old:
            new = tuple(part for part, _ in self.cut(sorted(jobs, key=key_of)))
            assert self.state.apply(Merge(tuple(old), new)) == []

    def enqueue(self, job_id):
        is_later = self.chance.random() < 0.3
        job = Job(
            id=job_id,
            entrypoint=self.chance.choice(["mail", "mail", "thumb"]),
            created_at=NOW,
            limit_key=self.chance.choice([*KEYS, *KEYS, None]),
            priority=self.chance.randrange(3),
            status=JobStatus.SCHEDULED if is_later else JobStatus.QUEUED,
            run_at=self.now + timedelta(seconds=self.chance.randrange(60)) if is_later else None,
        )
        self.waiting[job_id] = self.state.apply(lambda state: state.enqueue(job))

    def cancel(self, job_id):
        holders = [
            segment.name
            for segment in self.state.backlog.may_hold(job_id)
            if SegmentLines(segment, self.contents[segment.name]).find(segment, job_id)
        ]
        self.run(Cancel(job_id, NOW, *holders))
        del self.waiting[job_id]

    def may_begin(self, job):
        if job.run_at is not None and job.run_at > self.now:
            return False
        limit = None if job.limit_key is None else self.state.limits.limit_keys[job.limit_key].max_running
        held = [other.limit_key for other in self.running.values()].count(job.limit_key)
        return limit is None or held < limit

    def dequeue(self, token, wanted):
        """Claim the next one, which is the first that may begin, wherever it is."""
        lines = {}
        for job in sorted(self.waiting.values(), key=lambda job: (job.priority, job.sequence)):
            if wanted in (None, job.entrypoint) and self.may_begin(job):
                lines.setdefault(job.entrypoint, job)
        expected = min(lines.values(), key=lambda job: (job.priority, job.sequence), default=None)
        operation = Dequeue(wanted, 1, token, self.now)
        while (claimed := self.run(operation)) is None:
            pass
        assert [job.id for job in claimed] == ([expected.id] if expected else [])
        for job in claimed:
            del self.waiting[job.id]
            self.running[job.id] = job
        if not claimed:
            assert self.state.claimable(wanted, self.now) == 0, "a worker that waits would spin"

    def fail(self, wanted):
        """An operation that claims some jobs, and then fails."""

        def failing(state):
            state.dequeue(wanted, "t", self.now)
            raise ZeroDivisionError

        # It does not make do with less.
        self.state.shelf.capacity_bytes = 10**6
        with pytest.raises(ZeroDivisionError):
            self.run(failing)

    def check(self):
        ready = self.state._table.ready
        aside = [self.state.find(job_id) for job_id in ready.aside]
        assert all(job.status is JobStatus.QUEUED for job in aside)
        assert ready.aside_size == sum(JOB_BYTES for _ in aside)
        assert self.state.is_conserved()
        assert self.state.stats.live == len(self.waiting) + len(self.running)


@pytest.mark.parametrize("seed", range(25))
def test_the_first_that_may_begin_does_and_the_others_stay_in_segments(seed, monkeypatch):
    monkeypatch.setattr("bucketq.backlog.HOLES_MAX", 5)
    chance = Random(seed)
    world = World(chance)
    for step in range(1000):
        wanted = chance.choice([None, "mail", "thumb"])
        world.state.shelf.capacity_bytes = chance.choice([3000, 10**6])
        world.now += timedelta(seconds=chance.random())
        match chance.choice(["enqueue"] * 6 + ["dequeue"] * 3 + ["ack"] * 2 + ["cancel", "fail"]):
            case "enqueue":
                world.enqueue(f"{step:04}")
            case "dequeue":
                world.dequeue(f"t{step}", wanted)
            case "ack" if world.running:
                job = world.running.pop(chance.choice(sorted(world.running)))
                world.state.apply(lambda state, job=job: state.ack(Claim.of(job), NOW))
            case "cancel" if world.waiting:
                world.cancel(chance.choice(sorted(world.waiting)))
            case "fail":
                world.fail(wanted)
        if chance.random() < 0.2:
            world.spill()
            # What is not worth a segment stays.
            assert world.state._table.ready.count() <= HOT_JOBS * 3 // 2
            if chance.random() < 0.2:
                world.merge()
        if chance.random() < 0.02:
            # As if another process had written.
            world.state._go_by(world.state.limits)
            world.state.shelf = Shelf(3000)
        world.check()
    assert len(world.waiting) > 150, "it was about a deep backlog"
    limits = Limits()
    world.state.set_limits(limits)
    world.now += timedelta(minutes=2)
    for job in world.running.values():
        world.state.ack(Claim.of(job), NOW)
    world.running = {}
    world.may_begin = lambda job: True
    while world.waiting:
        world.dequeue(f"end-{len(world.waiting)}", None)
