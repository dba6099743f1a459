"""Long random walks of one state with limits, where most jobs wait for room, against a plain search."""

from datetime import UTC, datetime
from random import Random

import pytest

from bucketq import Job, QueueState, Settings
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.object_name import segment_name
from bucketq.segment import SegmentWriter, key_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST = {"a": 1, "b": 2, "c": 1}


def spill(state, number):
    """What upkeep does: the jobs that had better leave, into segments that are on the shelf."""
    for line in state.overflow():
        writer = SegmentWriter()
        for job in line:
            writer.add(job)
        segment, content = writer.finish(segment_name(1, f"{number:016x}"))
        number += 1
        state.shelf.put(segment, content)
        state.apply(lambda state, segment=segment, line=line: state.spill(segment, line))
    return number


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("hot_jobs_max", [4, 40, 10_000])
def test_the_first_that_may_begin_does(seed, hot_jobs_max):
    chance = Random(seed)
    state = QueueState()
    state.settings = Settings(hot_jobs_max=hot_jobs_max, hot_bytes_max=8 * 300)
    limits = Limits()
    for key, most in MOST.items():
        limits = limits.with_limit(None, key, Limit(max_running=most))
    state.set_limits(limits)
    waiting, running, segments = {}, {}, 0
    for step in range(300):
        action = chance.choice(["enqueue", "enqueue", "dequeue", "dequeue", "ack", "release"])
        if action == "enqueue":
            key = chance.choice(["a", "a", "a", "b", "c", None])
            tenant = chance.choice([None, "x", "y"])
            job = Job(
                id=f"{step:04}", entrypoint="mail", created_at=NOW, limit_key=key, tenant=tenant,
                priority=chance.randrange(2),
            )  # fmt: skip
            waiting[job.id] = state.apply(lambda state, job=job: state.enqueue(job))
        elif action == "dequeue":
            held = [job.limit_key for job in running.values()]
            able = [
                job for job in waiting.values() if held.count(job.limit_key) < MOST.get(job.limit_key, 999)
            ]
            claimed = state.apply(lambda state, step=step: state.dequeue("mail", f"token {step}", NOW))
            expected = min(able, key=key_of, default=None)
            assert (claimed and claimed.id) == (expected and expected.id)
            if claimed:
                del waiting[claimed.id]
                running[claimed.id] = claimed
            else:
                assert state.claimable(None, NOW) == 0, "a worker that waits would spin"
        elif running:
            job = running.pop(chance.choice(sorted(running)))
            if action == "ack":
                state.apply(lambda state, job=job: state.ack(Claim.of(job), NOW))
            else:
                state.apply(lambda state, job=job: state.release(Claim.of(job)))
                # Where turns were begun anew meanwhile, it has another one.
                waiting[job.id] = state.find(job.id)
        if chance.random() < 0.1:
            segments = spill(state, segments)
        assert state.is_conserved()
