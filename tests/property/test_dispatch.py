"""Long random walks of one state, also where most jobs wait for room, against a plain search."""

from datetime import UTC, datetime
from random import Random

import pytest

from bucketq import Job, QueueState, Settings
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.object_name import segment_name
from bucketq.segment import key_of
from bucketq.segment_lines import SegmentWriter
from bucketq.wanted import names_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST = {"a": 1, "b": 2, "c": 1}
WANTED = [
    None,
    "mail",
    "mail",
    "mail",
    ("mail", "thumb"),
    ("index", "mail"),
    ("index", "nobody"),
    ("nobody", "none"),
]


def spill(state, number):
    """What upkeep does: the jobs that had better leave, into segments that are on the shelf."""
    for line in state.overflow():
        writer = SegmentWriter()
        for job in line:
            writer.add(job)
        segment, content = writer.finish(segment_name(1, f"{number:016x}"))
        number += 1
        state.shelf.put(segment, content)
        state.apply(lambda state, segment=segment, line=line: state.spill([(segment, line)]))
    return number


def first_of(able, wanted):
    """The first of each entrypoint that is wanted; of those the one that came first."""
    firsts = {}
    for job in sorted(able, key=key_of):
        if wanted is None or job.entrypoint in names_of(wanted):
            firsts.setdefault(job.entrypoint, job)
    return min(firsts.values(), key=lambda job: (job.priority, job.sequence), default=None)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("hot_jobs_max", [4, 40, 10_000])
@pytest.mark.parametrize("is_governed", [True, False])
def test_the_first_that_may_begin_does(seed, hot_jobs_max, is_governed):
    chance = Random(seed)
    state = QueueState()
    state.settings = Settings(hot_jobs_max=hot_jobs_max, hot_bytes_max=8 * 300)
    limits = Limits().with_limit("thumb", None, Limit(max_running=3))
    for key, most in MOST.items():
        limits = limits.with_limit(None, key, Limit(max_running=most))
    if is_governed:
        state.set_limits(limits)

    def may_begin(job):
        if not is_governed:
            return True
        is_paused = state.limits.pauses(job.entrypoint)
        thumbs = sum(other.entrypoint == "thumb" for other in running.values())
        held = [other.limit_key for other in running.values()].count(job.limit_key)
        has_room = job.entrypoint != "thumb" or thumbs < 3
        return not is_paused and has_room and held < MOST.get(job.limit_key, 999)

    waiting, running, segments = {}, {}, 0
    for step in range(300):
        action = chance.choice(["enqueue", "enqueue", "dequeue", "dequeue", "ack", "release"])
        if action == "enqueue":
            key, tenant = chance.choice(["a", "a", "a", "b", "c", None]), chance.choice([None, "x", "y"])
            job = Job(
                id=f"{step:04}",
                entrypoint=chance.choice(["mail", "mail", "thumb", "index"]),
                created_at=NOW,
                limit_key=key if is_governed else None,
                tenant=tenant if is_governed else None,
                priority=chance.randrange(2),
            )
            waiting[job.id] = state.apply(lambda state, job=job: state.enqueue(job))
        elif action == "dequeue":
            wanted = chance.choice(WANTED)
            expected = first_of(filter(may_begin, waiting.values()), wanted)
            assert expected is None or state.claimable(wanted, NOW) > 0, "a worker that waits would sleep on"
            claimed = state.apply(
                lambda state, step=step, wanted=wanted: state.dequeue(wanted, f"token {step}", NOW)
            )
            assert (claimed and claimed.id) == (expected and expected.id)
            if claimed:
                del waiting[claimed.id]
                running[claimed.id] = claimed
            else:
                assert state.claimable(wanted, NOW) == 0, "a worker that waits would spin"
        elif running:
            job = running.pop(chance.choice(sorted(running)))
            if action == "ack":
                state.apply(lambda state, job=job: state.ack(Claim.of(job), NOW))
            else:
                state.apply(lambda state, job=job: state.release(Claim.of(job)))
                # Where turns were begun anew meanwhile, it has another one.
                waiting[job.id] = state.find(job.id)
        if is_governed and chance.random() < 0.05:
            was_paused = state.limits.pauses("index")
            state.set_limits(limits if was_paused else limits.with_pause("index"))
        if chance.random() < 0.1:
            segments = spill(state, segments)
        assert state.is_conserved()
