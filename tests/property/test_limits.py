"""Random histories with limits, pauses and tenants, step by step against a model small enough to trust."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from bucketq import BrokerQueue, ClaimLostError, DirectQueue, InMemoryStorage, Settings
from tests.property.machine import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
ENTRYPOINTS = st.sampled_from(["mail", "thumb"])
LIMIT_KEYS = st.sampled_from([None, "gpu", "user-1", "user-2"])
LIMITED = st.sampled_from(["gpu", "user-1", "user-*", "*"])
WHO = st.integers(0, 1)


class SetClock:
    """A clock that only the test moves."""

    def __init__(self):
        self.time = START

    def now(self):
        return self.time

    def monotonic_s(self):
        return 0.0


class ModelJob:
    def __init__(self, job):
        self.id, self.entrypoint, self.limit_key = job.id, job.entrypoint, job.limit_key
        self.order = job.priority, job.turn, job.sequence
        self.token = None


class LimitsAgainstModel(RuleBasedStateMachine):
    """A BrokerQueue and a DirectQueue on one object; the model looks through all jobs every time."""

    claims = Bundle("claims")
    settings = Settings()
    # What a process has set aside in memory is forgotten when another one writes.
    is_alone = False

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = SetClock()
        storage = InMemoryStorage()
        broker = BrokerQueue(storage, settings=self.settings, clock=self.clock)
        self.queues = [broker, DirectQueue(storage, self.settings, clock=self.clock)]
        self.do(broker.__aenter__())
        self.jobs = {}
        self.paused = set()
        self.max_running = {}

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def queue(self, who):
        return self.queues[0 if self.is_alone else who]

    def teardown(self):
        self.do(self.queues[0].__aexit__(None, None, None))
        self.loop.close()

    def limit_of(self, limits, limit_key):
        """As the documentation says it: the very key, or else the longest that ends with a star."""
        fitting = [
            name
            for name in limits
            if name == limit_key or (name.endswith("*") and limit_key.startswith(name[:-1]))
        ]
        best = max(fitting, key=lambda name: (name == limit_key, len(name)), default=None)
        return None if best is None else limits[best]

    def may_begin(self, job):
        running = [other for other in self.jobs.values() if other.token is not None]
        if self.paused & {None, job.entrypoint} or job.token is not None:
            return False
        most = self.max_running.get(("entrypoint", job.entrypoint))
        if most is not None and sum(other.entrypoint == job.entrypoint for other in running) >= most:
            return False
        if job.limit_key is None:
            return True
        of_keys = {name: most for (kind, name), most in self.max_running.items() if kind == "limit_key"}
        most = self.limit_of(of_keys, job.limit_key)
        return most is None or sum(other.limit_key == job.limit_key for other in running) < most

    def eligible(self, entrypoint):
        found = [job for job in self.jobs.values() if entrypoint in (None, job.entrypoint)]
        return sorted((job for job in found if self.may_begin(job)), key=lambda job: job.order)

    def next(self, entrypoint):
        """The first of each entrypoint; of those the one that came first."""
        firsts = {}
        for job in self.eligible(entrypoint):
            firsts.setdefault(job.entrypoint, job)
        return min(firsts.values(), key=lambda job: (job.order[0], job.order[2]), default=None)

    @rule(
        who=WHO,
        entrypoint=ENTRYPOINTS,
        priority=st.integers(0, 1),
        limit_key=LIMIT_KEYS,
        tenant=st.sampled_from([None, None, "a", "b"]),
        count=st.integers(1, 12),
    )
    def enqueue(self, who, entrypoint, priority, limit_key, tenant, count):
        options = {"limit_key": limit_key, "tenant": tenant}
        options = {name: value for name, value in options.items() if value is not None}
        payloads = range(count)
        ids = self.do(self.queue(who).enqueue_many(entrypoint, payloads, priority, **options))
        state = self.do(self.queue(who).read_state())
        for job_id in ids:
            self.jobs[job_id] = ModelJob(state.find(job_id))

    @rule(target=claims, who=WHO, entrypoint=st.none() | ENTRYPOINTS, batch_size=st.integers(1, 6))
    def dequeue(self, who, entrypoint, batch_size):
        jobs = self.do(self.queue(who).dequeue(entrypoint, batch_size=batch_size))
        for job in jobs:
            expected = self.next(entrypoint)
            assert expected is not None, "more of them run than may"
            assert job.id == expected.id
            expected.token = job.token
        assert len(jobs) == batch_size or self.next(entrypoint) is None, "one was left that may begin"
        return multiple(*jobs)

    @rule(who=WHO, job=consumes(claims))
    def ack(self, who, job):
        try:
            self.do(self.queue(who).ack(job))
        except ClaimLostError:
            assert self.jobs[job.id].token != job.token
        else:
            del self.jobs[job.id]

    @rule(who=WHO, job=consumes(claims), give_back=st.sampled_from(["nack", "release"]))
    def give_back(self, who, job, give_back):
        if give_back == "release":
            self.do(self.queue(who).release(job))
        elif self.do(self.queue(who).nack(job)).status == "dead":
            del self.jobs[job.id]
            return
        # Where turns were begun anew meanwhile, it has another one.
        self.jobs[job.id] = ModelJob(self.do(self.queue(who).find(job)))

    @rule(who=WHO, entrypoint=st.none() | ENTRYPOINTS)
    def pause(self, who, entrypoint):
        self.do(self.queue(who).pause(entrypoint))
        self.paused.add(entrypoint)

    @rule(who=WHO, entrypoint=st.none() | ENTRYPOINTS)
    def resume(self, who, entrypoint):
        self.do(self.queue(who).resume(entrypoint))
        self.paused.discard(entrypoint)

    @rule(who=WHO)
    def resume_all(self, who):
        for entrypoint in tuple(self.paused):
            self.resume(who, entrypoint)

    @rule(who=WHO, entrypoint=ENTRYPOINTS, most=st.none() | st.integers(0, 3))
    def limit_entrypoint(self, who, entrypoint, most):
        self.do(self.queue(who).limit(entrypoint, max_running=most))
        self.max_running["entrypoint", entrypoint] = most

    @rule(who=WHO, limit_key=LIMITED, most=st.none() | st.integers(0, 3))
    def limit_key(self, who, limit_key, most):
        self.do(self.queue(who).limit(limit_key=limit_key, max_running=most))
        self.max_running.pop(("limit_key", limit_key), None)
        if most is not None:
            self.max_running["limit_key", limit_key] = most

    @rule()
    def time_passes(self):
        """Whatever goes on beside the calls comes to its end."""
        self.do(asyncio.sleep(0.002))
        self.clock.time += timedelta(seconds=1)

    @invariant()
    def a_waiting_worker_sleeps_while_nothing_may_begin(self):
        self.do(self.queues[0].stats())
        state = self.queues[0]._group._committer.state
        for entrypoint in (None, "mail", "thumb"):
            if self.next(entrypoint) is not None:
                assert state.claimable(entrypoint, self.clock.now()) > 0

    @invariant()
    def the_counters_add_up(self):
        state = self.do(self.queues[1].read_state())
        assert state.is_conserved()
        assert {job.id: job.token for job in state.jobs if job.status != "dead"} == {
            job.id: job.token for job in self.jobs.values()
        }


class SegmentedLimitsAgainstModel(LimitsAgainstModel):
    """The same with so little room that nearly every job passes through a segment."""

    settings = Settings(hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5)


class LonelyLimitsAgainstModel(LimitsAgainstModel):
    """The same in one process."""

    is_alone = True


class LonelySegmentedLimitsAgainstModel(SegmentedLimitsAgainstModel):
    """The same in one process, with little room."""

    is_alone = True


@pytest.mark.parametrize(
    "machine",
    [
        LimitsAgainstModel,
        SegmentedLimitsAgainstModel,
        LonelyLimitsAgainstModel,
        LonelySegmentedLimitsAgainstModel,
    ],
)
def test_against_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(60), stateful_step_count=40))
