"""Random jobs that wait for others, and batches, against a model small enough to trust."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from bucketq import (
    JobFailedError,
    JobNotDoneError,
    JobNotFoundError,
    Settings,
)
from tests.property.machine import QueueMachine, examples

WHO = st.integers(0, 2)
PICKS = st.lists(st.integers(0, 1000), max_size=3)
RUNS = st.booleans()
LIVE = {"waiting", "blocked", "running"}


class ModelJob:
    def __init__(self, after=(), if_dead="cancel", batch=None):
        self.after = set(after)
        self.if_dead = if_dead
        self.batch = batch
        self.status = "waiting"


class FlowAgainstModel(QueueMachine):
    """Two BrokerQueues and a DirectQueue on one object; the model is a dict of all jobs that ever were."""

    def __init__(self):
        super().__init__()
        self.jobs = {}
        # Of each: how many are left and have failed, of how many.
        self.batches = {}
        self.held = {}

    def picked(self, picks):
        ids = list(self.jobs)
        return list({ids[pick % len(ids)] for pick in picks}) if ids else []

    # The model

    def add(self, job_id, after=(), runs=False, batch=None):
        self.jobs[job_id] = job = ModelJob(after, "run" if runs else "cancel", batch)
        fates = {parent: self.jobs[parent].status for parent in after}
        if not runs and {"dead", "cancelled"} & set(fates.values()):
            self.finish(job_id, "cancelled")
            return
        job.after = {parent for parent, status in fates.items() if status in LIVE | {"to come"}}
        job.status = "blocked" if job.after else "waiting"

    def finish(self, job_id, status):
        job = self.jobs[job_id]
        job.status = status
        if job.batch == job_id:
            del self.batches[job_id]
        elif job.batch is not None:
            counts = self.batches[job.batch]
            counts[1] -= 1
            counts[2] += status != "done"
            if not counts[1]:
                self.jobs[job.batch].status = "waiting"
        for child_id, child in self.jobs.items():
            if child.status == "blocked" and job_id in child.after:
                child.after.remove(job_id)
                if status != "done" and child.if_dead == "cancel":
                    self.finish(child_id, "cancelled")
                elif not child.after:
                    child.status = "waiting"

    # What happens

    @rule(who=WHO, picks=PICKS, runs=RUNS)
    def enqueue(self, who, picks, runs):
        after = self.picked(picks)
        options = {"after": after, "if_dead": "run" if runs else "cancel", "max_attempts": 1}
        job = self.do(self.queues[who].enqueue("work", b"x", **options))
        self.add(job.id, after, runs)
        assert job.is_cancelled == (self.jobs[job.id].status == "cancelled")

    @rule(who=WHO, picks=PICKS, runs=RUNS, count=st.integers(0, 12))
    def enqueue_batch(self, who, picks, runs, count):
        after = self.picked(picks)
        options = {"after": after, "if_dead": "run" if runs else "cancel", "max_attempts": 1}
        then = ("work", b"", 0, {"max_attempts": 1})
        batch = self.do(self.queues[who].enqueue_batch("work", range(count), then=then, **options))
        self.jobs[batch.id] = following = ModelJob(batch=batch.id)
        following.status = "to come" if count else "waiting"
        self.batches[batch.id] = [count, count, 0]
        for job_id in batch.job_ids:
            self.add(job_id, after, runs, batch.id)

    @rule(who=WHO, picks=PICKS, spoil=st.booleans())
    def transaction(self, who, picks, spoil):
        held = list(self.held)[:1]
        after = [*self.picked(picks), *held]

        async def transact():
            async with self.queues[who].transaction() as t:
                for job_id in held:
                    t.ack(self.held[job_id], job_id)
                parent = t.enqueue("work", max_attempts=1)
                child = t.enqueue("work", after=[*dict.fromkeys(after), parent], max_attempts=1)
                if spoil:
                    t.ack("nobody")
                return parent, child

        try:
            parent, child = self.do(transact())
        except JobNotFoundError:
            assert spoil
            return
        assert not spoil
        for job_id in held:
            del self.held[job_id]
            self.finish(job_id, "done")
        self.add(parent.id)
        self.add(child.id, [*dict.fromkeys(after), parent.id])

    @rule(who=WHO, count=st.integers(1, 4))
    def dequeue(self, who, count):
        places = {job.id: job.sequence for job in self.do(self.queues[2].read_state()).queued_jobs()}
        jobs = self.do(self.queues[who].dequeue(batch_size=count))
        assert [job.id for job in jobs] == sorted(places, key=places.__getitem__)[:count]
        for job in jobs:
            assert self.jobs[job.id].status == "waiting"
            self.jobs[job.id].status = "running"
            self.held[job.id] = job

    @rule(who=WHO, pick=st.integers(0, 100), succeeds=st.booleans())
    def finish_one(self, who, pick, succeeds):
        if self.held:
            job = self.held.pop(list(self.held)[pick % len(self.held)])
            q = self.queues[who]
            self.do(q.ack(job, job.id) if succeeds else q.nack(job, "boom"))
            self.finish(job.id, "done" if succeeds else "dead")

    @rule(who=WHO, pick=st.integers(0, 1000))
    def ask_for_a_result(self, who, pick):
        for job_id in self.picked([pick]):
            status = self.jobs[job_id].status
            try:
                assert self.do(self.queues[who].result(job_id, timeout=0.001)) == job_id
                assert status == "done"
            except TimeoutError:
                # A look into the archive may take longer than that.
                pass
            except JobNotDoneError:
                assert status == "cancelled"
            except JobFailedError:
                assert status == "dead"

    @invariant()
    def the_stored_queue_is_the_models(self):
        state = self.do(self.queues[2].read_state())
        statuses = {"queued": "waiting", "blocked": "blocked", "in_progress": "running", "dead": "dead"}
        assert {job.id: statuses[job.status] for job in state.jobs} == {
            job_id: job.status for job_id, job in self.jobs.items() if job.status in LIVE | {"dead"}
        }
        assert all(set(job.after) == self.jobs[job.id].after for job in state.jobs)
        assert {name: list(batch.counts) for name, batch in state.batches} == self.batches
        ended = [job.status for job in self.jobs.values()]
        assert state.stats.cancelled_total == ended.count("cancelled")
        assert state.stats.completed_total == ended.count("done")
        assert state.is_conserved()


class SegmentedFlowAgainstModel(FlowAgainstModel):
    """The same with limits so small that most jobs pass through segments, and the archive is soon reached."""

    settings = Settings(
        hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5, payload_inline_max=0, archive_jobs_max=3
    )


@pytest.mark.parametrize("machine", [FlowAgainstModel, SegmentedFlowAgainstModel])
def test_against_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(60), stateful_step_count=40))
