"""Random histories of jobs with unique keys, cancelled, dead and done again, against a plain dict.

The limits are so small that nearly every job passes through a segment.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bucketq import (
    JobNotFoundError,
    KeyTakenError,
    Settings,
)
from bucketq.verify import verify
from tests.property.machine import QueueMachine, examples

TINY = Settings(
    hot_jobs_max=4,
    hot_bytes_max=800,
    segment_jobs_max=5,
    payload_inline_max=5,
    collect_after_s=0.001,
    archive_jobs_max=5,
    archive_payloads=True,
)
WHO = st.integers(0, 2)
NUMBER = st.integers(0, 1000)


async def taken_by(call):
    """What a call returns; or the id of the job that has the key."""
    try:
        return await call
    except KeyTakenError as error:
        return error.job_id


class KeysAgainstModel(QueueMachine):
    """Two BrokerQueues and a DirectQueue on one object; the model knows key and status of each job."""

    settings = TINY

    def __init__(self):
        super().__init__()
        self.keys = {}
        self.statuses = {}
        self.claims = {}
        self.gone = []
        self.cancelled = 0

    def look_back(self):
        verdict = self.do(verify(self.storage))
        assert verdict.is_sound or not self.keys, verdict.problems

    def holder(self, key):
        found = [one for one, status in self.statuses.items() if self.keys[one] == key and status != "dead"]
        assert len(found) <= 1
        return found[0] if found else None

    def forget(self, job_id):
        del self.statuses[job_id]
        self.gone.append(job_id)

    def chosen(self, number, *statuses):
        found = [one for one, status in self.statuses.items() if status in statuses]
        return found[number % len(found)] if found else None

    @rule(
        who=WHO,
        key=st.sampled_from("abcdef"),
        if_exists=st.sampled_from(["return", "replace", "raise"]),
        delay=st.sampled_from([0, 3600]),
        size=st.sampled_from([1, 10]),
    )
    def enqueue(self, who, key, if_exists, delay, size):
        options = {"key": key, "if_exists": if_exists, "max_attempts": 1}
        if delay:
            options["delay"] = delay
        other = self.holder(key)
        is_running = other is not None and self.statuses[other] == "in_progress"
        is_refused = other is not None and (if_exists == "raise" or (if_exists == "replace" and is_running))
        job = self.insist(lambda: taken_by(self.queues[who].enqueue("mail", b"x" * size, **options)))
        assert isinstance(job, str) == is_refused
        if is_refused:
            assert job == other
            return
        if other is not None and if_exists == "return":
            assert job.id == other
            return
        if other is not None:
            self.forget(other)
            self.cancelled += 1
        self.keys[job.id] = key
        self.statuses[job.id] = "scheduled" if delay else "queued"

    @rule(who=WHO, count=st.integers(1, 4))
    def enqueue_others(self, who, count):
        for job_id in self.insist(lambda: self.queues[who].enqueue_many("mail", range(count))):
            self.keys[job_id] = None
            self.statuses[job_id] = "queued"

    @rule(who=WHO, size=st.integers(1, 3))
    def dequeue(self, who, size):
        jobs = self.do(self.queues[who].dequeue(batch_size=size))
        assert len(jobs) == min(size, sum(status == "queued" for status in self.statuses.values()))
        for job in jobs:
            assert self.statuses[job.id] == "queued"
            self.statuses[job.id] = "in_progress"
            self.claims[job.id] = job

    @precondition(lambda self: self.claims)
    @rule(who=WHO, number=NUMBER, succeeds=st.booleans())
    def finish(self, who, number, succeeds):
        _, job = self.claims.popitem() if number % 2 else (None, self.claims.pop(next(iter(self.claims))))
        if succeeds:
            self.do(self.queues[who].ack(job))
            self.forget(job.id)
        else:
            given_back = self.do(self.queues[who].nack(job, "boom"))
            if given_back.is_cancelled:
                self.forget(job.id)
                self.cancelled += 1
            else:
                self.statuses[job.id] = given_back.status.value

    @rule(who=WHO, number=NUMBER)
    def cancel(self, who, number):
        job_id = self.chosen(number, "queued", "scheduled")
        if job_id is not None:
            assert self.do(self.queues[who].cancel(job_id)).id == job_id
            self.forget(job_id)
            self.cancelled += 1

    @rule(who=WHO, number=NUMBER)
    def cancel_a_running_one(self, who, number):
        job_id = self.chosen(number, "in_progress")
        if job_id is not None:
            assert self.do(self.queues[who].cancel(job_id)).is_cancelled

    @precondition(lambda self: self.gone)
    @rule(who=WHO, number=NUMBER, verb=st.sampled_from(["cancel", "redrive", "discard"]))
    def settle_what_is_gone(self, who, number, verb):
        try:
            self.do(getattr(self.queues[who], verb)(self.gone[number % len(self.gone)]))
        except JobNotFoundError:
            return
        raise AssertionError("it was gone")

    @rule(who=WHO, number=NUMBER)
    def redrive(self, who, number):
        job_id = self.chosen(number, "dead")
        if job_id is None:
            return
        other = self.keys[job_id] and self.holder(self.keys[job_id])
        again = self.do(taken_by(self.queues[who].redrive(job_id)))
        if other is not None:
            assert again == other
            return
        assert again.redrive_of == job_id
        self.forget(job_id)
        self.keys[again.id], self.statuses[again.id] = self.keys[job_id], "queued"

    @rule(who=WHO, number=NUMBER)
    def discard(self, who, number):
        job_id = self.chosen(number, "dead")
        if job_id is not None:
            self.do(self.queues[who].discard(job_id))
            self.forget(job_id)

    @rule(who=WHO)
    def redrive_all(self, who):
        dead = [one for one, status in self.statuses.items() if status == "dead"]
        free = {self.keys[one] for one in dead if self.keys[one] and not self.holder(self.keys[one])}
        expected = len(free) + sum(self.keys[one] is None for one in dead)
        assert self.do(self.queues[who].redrive_many()) == expected
        for job in self.do(self.queues[2].read_state()).jobs:
            if job.id not in self.statuses:
                self.forget(job.redrive_of)
                self.keys[job.id], self.statuses[job.id] = job.key, "queued"

    @rule(who=WHO)
    def collect(self, who):
        self.do(self.queues[who].collect_garbage())

    @invariant()
    def the_stored_queue_is_the_models(self):
        queue = self.queues[2]
        state = self.do(queue.read_state())
        assert {job.id: job.status.value for job in state.jobs} == self.statuses
        live = [job.key for job in state.jobs if job.key is not None and job.status != "dead"]
        assert len(set(live)) == len(live)
        assert state.stats.cancelled_total == self.cancelled
        assert state.is_conserved()
        for job in state.jobs:
            assert self.do(queue.fetch_payload(job)) is not None

    @invariant()
    def the_dead_are_listed(self):
        async def listed():
            return {job.id async for job in self.queues[2].dead()}

        assert self.do(listed()) == {one for one, status in self.statuses.items() if status == "dead"}


def test_keys_against_the_model():
    how = settings(max_examples=examples(60), stateful_step_count=50)
    run_state_machine_as_test(KeysAgainstModel, settings=how)
