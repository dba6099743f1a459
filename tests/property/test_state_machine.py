"""Random histories of the queue, step by step against a model small enough to trust."""

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from bucketq import (
    ClaimLostError,
    JobNotFoundError,
    Settings,
)
from tests.property.machine import QueueMachine, examples

ENTRYPOINTS = st.sampled_from(["mail", "thumb"])


class ModelJob:
    def __init__(self, job, place):
        self.id = job.id
        self.entrypoint = job.entrypoint
        self.order = job.priority, place
        self.max_attempts = job.max_attempts
        self.max_crashes = job.max_crashes
        self.attempts = self.crashes = 0
        self.token = None
        self.status = "queued"


class QueueAgainstModel(QueueMachine):
    """Two BrokerQueues and a DirectQueue on one object; the model is a plain list of jobs."""

    claims = Bundle("claims")

    def __init__(self):
        super().__init__()
        self.model = {}
        self.completed = 0
        self.enqueued = 0

    def waiting(self, entrypoint):
        found = [
            job
            for job in self.model.values()
            if job.status == "queued" and entrypoint in (None, job.entrypoint)
        ]
        return sorted(found, key=lambda job: job.order)

    def add(self, job):
        self.enqueued += 1
        self.model[job.id] = ModelJob(job, self.enqueued)

    def give_back(self, job, status="queued"):
        job.token = None
        is_exhausted = job.attempts - job.crashes >= job.max_attempts
        job.status = "dead" if is_exhausted else status

    @rule(
        who=st.integers(0, 2), entrypoint=ENTRYPOINTS, priority=st.integers(-1, 1), attempts=st.integers(1, 3)
    )
    def enqueue(self, who, entrypoint, priority, attempts):
        options = {"priority": priority, "max_attempts": attempts, "max_crashes": 2}
        self.add(self.insist(lambda: self.queues[who].enqueue(entrypoint, b"x", **options)))

    @rule(who=st.integers(0, 2), entrypoint=ENTRYPOINTS, count=st.integers(1, 3))
    def enqueue_for_later(self, who, entrypoint, count):
        for job_id in self.insist(
            lambda: self.queues[who].enqueue_many(entrypoint, range(count), delay=1000)
        ):
            self.add(self.do(self.queues[who].find(job_id)))
            self.model[job_id].status = "scheduled"

    @rule(who=st.integers(0, 2), entrypoint=ENTRYPOINTS, count=st.integers(0, 3))
    def enqueue_many(self, who, entrypoint, count):
        for job_id in self.insist(lambda: self.queues[who].enqueue_many(entrypoint, range(count))):
            self.add(self.do(self.queues[who].find(job_id)))

    @rule(
        target=claims,
        who=st.integers(0, 2),
        entrypoint=st.none() | ENTRYPOINTS,
        batch_size=st.integers(1, 3),
    )
    def dequeue(self, who, entrypoint, batch_size):
        expected = self.waiting(entrypoint)[:batch_size]
        jobs = self.do(self.queues[who].dequeue(entrypoint, batch_size=batch_size))
        assert [job.id for job in jobs] == [job.id for job in expected]
        for job, model in zip(jobs, expected, strict=True):
            model.token, model.status = job.token, "in_progress"
            model.attempts += 1
            assert job.attempts == model.attempts
        return multiple(*jobs)

    def expect(self, job, operation):
        """Run an operation on a claim; return the model's job if the claim still holds."""
        model = self.model.get(job.id)
        try:
            self.do(operation)
        except ClaimLostError:
            # Of a job that is gone it is not known whether it waits in a segment: both are refused.
            assert model is None or model.token != job.token
        except JobNotFoundError:
            assert model is None
        else:
            assert model is not None
            assert model.token == job.token
            return model
        return None

    @rule(who=st.integers(0, 2), job=consumes(claims))
    def ack(self, who, job):
        if self.expect(job, self.queues[who].ack(job)):
            self.completed += 1
            del self.model[job.id]

    @rule(who=st.integers(0, 2), job=claims, later=st.booleans())
    def nack(self, who, job, later):
        if model := self.expect(job, self.queues[who].nack(job, "boom", retry_in=1000 if later else 0)):
            self.give_back(model, "scheduled" if later else "queued")

    @rule(who=st.integers(0, 2), job=claims)
    def leave(self, who, job):
        self.do(self.queues[who].release(job))
        model = self.model.get(job.id)
        if model is not None and model.token == job.token:
            model.token, model.status = None, "queued"
            model.attempts -= 1

    @rule(who=st.integers(0, 2), job=claims)
    def heartbeat(self, who, job):
        if who == 2:
            self.expect(job, self.queues[2].heartbeat(job))

    @rule(who=st.integers(0, 2))
    def everyone_falls_silent(self, who):
        held = [job for job in self.model.values() if job.token is not None]
        assert self.do(self.queues[who].requeue_stale(timedelta(seconds=-60))) == len(held)
        for job in held:
            job.crashes += 1
            job.token, job.status = None, "dead" if job.crashes >= job.max_crashes else "queued"

    @rule(who=st.integers(0, 2), job=claims, entrypoint=ENTRYPOINTS, spoil=st.booleans())
    def transaction(self, who, job, entrypoint, spoil):
        added = []

        async def transact():
            async with self.queues[who].transaction() as t:
                added.append(t.enqueue(entrypoint))
                t.nack(job)
                if spoil:
                    t.ack("nobody")

        model = self.model.get(job.id)
        holds = model is not None and model.token == job.token
        try:
            self.do(transact())
        except JobNotFoundError:
            assert spoil or not holds
        else:
            assert holds
            assert not spoil
            self.add(added[0])
            self.give_back(model)

    @invariant()
    def the_stored_queue_is_the_models(self):
        state = self.do(self.queues[2].read_state())
        assert {job.id: (job.token, job.attempts, job.crashes, job.status) for job in state.jobs} == {
            job.id: (job.token, job.attempts, job.crashes, job.status) for job in self.model.values()
        }
        assert [job.id for job in state.queued_jobs()] == [job.id for job in self.waiting(None)]
        assert state.stats.completed_total == self.completed
        assert state.stats.enqueued_total == self.enqueued
        assert state.is_conserved()


class SegmentedQueueAgainstModel(QueueAgainstModel):
    """The same with limits so small that nearly every job passes through a segment."""

    settings = Settings(
        hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5, payload_inline_max=0, collect_after_s=0.001
    )

    @rule(who=st.integers(0, 2), job=QueueAgainstModel.claims)
    def find(self, who, job):
        found = self.do(self.queues[who].find(job.id))
        model = self.model.get(job.id)
        assert (found and found.token) == (model and model.token)

    @rule(who=st.integers(0, 2), dry_run=st.booleans())
    def collect(self, who, dry_run):
        self.do(self.queues[who].collect_garbage(dry_run=dry_run))

    @invariant()
    def what_is_referred_to_exists(self):
        state = self.do(self.queues[2].read_state())
        for job in state.jobs:
            assert self.do(self.queues[2].fetch_payload(job)) is not None

    def teardown(self):
        self.do(self.queues[2].collect_garbage())
        super().teardown()


@pytest.mark.parametrize("machine", [QueueAgainstModel, SegmentedQueueAgainstModel])
def test_against_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(60), stateful_step_count=40))
