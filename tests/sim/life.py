"""The life of a job in the simulator: actors that use delays, keys, limits, schedules and the rest,
and the promises about them.

Only some seeds draw them, so that what the others do stays as it was.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

from bucketq import BucketQError, JobStatus
from bucketq.testing.virtual_time import VirtualClock
from tests.sim.actors import slow_worker, worker, zombie
from tests.sim.checkers import CHECKERS, removals
from tests.sim.record import ViolationError

ENTRYPOINTS = ["mail", "thumb", "index"]
LIFE_WANTED = [None, *ENTRYPOINTS, ("mail", "thumb"), ("index", "mail")]
KEYS = ["k0", "k1", "k2"]
LIMIT_KEYS = ["gpu-0", "gpu-1", "db"]
TENANTS = ["small", "flood"]
SCHEDULES = ["beat", "tick"]
MAX_RUNNING = 2
# How far clocks are off.
SKEW_S = 3
EPOCH = VirtualClock.EPOCH
GIVEN_UP = ("cancelled", "expired")
LIVE = {JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.BLOCKED, JobStatus.IN_PROGRESS}


def lives(seed):
    """Whether this seed is about the life of jobs."""
    return seed >= 1000 and seed % 2 == 1


async def planner(q, world):
    """Enqueues with whatever may be asked of a job."""
    known = world.known_jobs
    while world.is_stormy:
        dice = world.random
        options = {"max_attempts": dice.choice([1, 3])}
        if dice.random() < 0.4:
            options["delay"] = dice.uniform(0, 10)
        if dice.random() < 0.4:
            options |= {"key": dice.choice(KEYS), "if_exists": dice.choice(["return", "replace", "raise"])}
            options["key_for"] = dice.choice([0, 0, 5])
        if dice.random() < 0.3:
            options["limit_key"] = dice.choice(LIMIT_KEYS)
        if dice.random() < 0.3:
            options["tenant"] = dice.choice(TENANTS)
        if dice.random() < 0.2:
            options["expires_in"] = dice.uniform(0, 8)
        if dice.random() < 0.2:
            options["timeout"] = dice.uniform(0.5, 3)
        if known and dice.random() < 0.3:
            options["after"] = dice.sample(known, min(len(known), dice.randint(1, 2)))
            options["if_dead"] = dice.choice(["cancel", "run"])
        with suppress(BucketQError):
            known.append(await q.plan(dice.choice(ENTRYPOINTS), options))
        await asyncio.sleep(dice.expovariate(2))


async def rescheduler(q, world):
    """Schedules jobs in the order of their times, and cancels most of them while they wait in a segment."""
    dice = world.random
    while world.is_stormy:
        entrypoint, planned = dice.choice(ENTRYPOINTS), []
        for number in range(dice.randint(4, 12)):
            with suppress(BucketQError):
                planned.append(await q.plan(entrypoint, {"delay": 5.0 + 2 * number}))
        for job_id in dice.sample(planned, len(planned) * 3 // 4):
            await asyncio.sleep(dice.expovariate(20))
            with suppress(BucketQError):
                await q.cancel(job_id)


async def batch_worker(q, world):
    """Works on several jobs at a time, with one heartbeat and one ack for all of them."""
    while True:
        wanted, wait = world.random.choice(world.wanted), world.random.choice([0, 5])
        with suppress(BucketQError):
            jobs = await q.dequeue(wanted, 4, wait)
            for _ in range(world.random.randint(0, 3)):
                await asyncio.sleep(q.stale_after_s / 4)
                lost = {error.job_id for error in await q.heartbeat_many(jobs)}
                jobs = [job for job in jobs if job.id not in lost]
            await q.ack_many(jobs)
        await asyncio.sleep(world.random.uniform(0, 0.5))


async def canceller(q, world):
    """Cancels jobs that somebody enqueued, and runs dead ones again or gives them up."""
    while world.is_stormy:
        await asyncio.sleep(world.random.expovariate(1))
        with suppress(BucketQError):
            if world.known_jobs and world.random.random() < 0.6:
                await q.cancel(world.random.choice(world.known_jobs))
            else:
                await q.see_to_the_dead(world.random.choice(["redrive", "discard"]))


async def administrator(q, world):
    """Pauses, resumes, limits and schedules."""
    while world.is_stormy:
        await asyncio.sleep(world.random.expovariate(0.5))
        entrypoint = world.random.choice([None, *ENTRYPOINTS])
        with suppress(BucketQError):
            match world.random.choice(["pause", "resume", "limit", "schedule", "unschedule"]):
                case "pause":
                    await q.control("pause", entrypoint)
                    await asyncio.sleep(world.random.uniform(0, 3))
                    await q.control("resume", entrypoint)
                case "resume":
                    await q.control("resume", entrypoint)
                case "limit":
                    await q.control("limit", limit_key="gpu-*", max_running=MAX_RUNNING)
                case "schedule":
                    name = world.random.choice(SCHEDULES)
                    await q.control("schedule", name, "mail", {"schedule": name}, every=2, missed="all")
                case "unschedule":
                    await q.control("unschedule", world.random.choice(SCHEDULES))


async def closer(q, world):
    """When all is over: nothing is paused or scheduled any more, so that everything can be finished.

    Again and again: what an administrator asked for in the storm may land only now.
    """
    while True:
        for entrypoint in [None, *ENTRYPOINTS]:
            await insist(lambda entrypoint=entrypoint: q.control("resume", entrypoint))
        for name in SCHEDULES:
            await insist(lambda name=name: q.unschedule_if_there(name))
        await asyncio.sleep(60)


async def insist(call):
    while True:
        try:
            return await call()
        except BucketQError:
            await asyncio.sleep(1)


LIFE_ACTORS = [
    *(planner, planner, worker, worker, batch_worker, slow_worker, zombie),
    *(canceller, administrator, rescheduler),
]


# What is promised of them


def nothing_begins_before_its_time_or_its_parents(record):
    parents = {}
    for _, after, job_id, old, new in record.steps:
        if new is not None:
            parents.setdefault(job_id, set()).update(new.after)
        is_woken = old is not None and old.status is JobStatus.SCHEDULED and new is not None
        latest = EPOCH + timedelta(seconds=after.at_s + SKEW_S)
        if is_woken and new.status is not JobStatus.SCHEDULED and new.run_at and new.run_at > latest:
            raise ViolationError(f"{job_id} came into line before its time", job_id)
        if not _begins(old, new):
            continue
        live = {job.id for job in after.jobs.values() if job.status in LIVE}
        if waited_for := live & parents[job_id]:
            raise ViolationError(f"{job_id} was claimed before {waited_for} was finished", job_id)


def no_two_live_jobs_have_one_key(record):
    for version in record.versions:
        keys = Counter(job.key for job in version.jobs.values() if job.status in LIVE and job.key is not None)
        if doubled := [key for key, count in keys.items() if count > 1]:
            raise ViolationError(f"version {version.state.version} has two jobs with the key {doubled[0]}")


def limits_are_never_exceeded(record):
    for before, version in pairwise(record.versions):
        if not before.limits.limit_keys:
            continue
        running = Counter(job.limit_key for job in version.state.in_progress_jobs())
        ran = Counter(job.limit_key for job in before.state.in_progress_jobs())
        for key in ("gpu-0", "gpu-1"):
            # A limit may come while more are running than it allows; then none begins.
            if running[key] > max(MAX_RUNNING, ran[key]):
                raise ViolationError(f"version {version.state.version}: {running[key]} jobs of {key} run")


def what_is_paused_does_not_begin(record):
    for before, after in pairwise(record.versions):
        held = {job.token for job in before.state.in_progress_jobs()}
        for job in after.state.in_progress_jobs():
            is_paused = before.limits.pauses(job.entrypoint) and after.limits.pauses(job.entrypoint)
            if is_paused and job.token not in held:
                raise ViolationError(f"{job.id} was claimed though {job.entrypoint} is paused", job.id)


def each_tick_is_fired_once(record):
    ticks = Counter()
    for _, _, job_id, old, new in record.steps:
        if old is None and b'"schedule"' in new.payload and new.redrive_of is None:
            tick = new.json()["schedule"], new.run_at
            ticks[tick] += 1
            if ticks[tick] > 1:
                raise ViolationError(f"a tick was fired twice: {tick}", job_id)


def what_was_cancelled_never_begins(record):
    cancelled = {}
    for call in record.calls.values():
        if call.kind == "cancel" and call.is_ok and not call.result:
            cancelled[call.about[0]] = call
    for _, after, job_id, old, new in record.steps:
        if _begins(old, new) and old is not None and old.is_cancelled:
            raise ViolationError(f"{job_id} was tried again though it was cancelled", job_id)
        if _begins(old, new) and job_id in cancelled and after.at_s > cancelled[job_id].ended_s:
            raise ViolationError(f"{job_id} was claimed after it was cancelled", job_id, cancelled[job_id])


def whoever_leaves_is_in_the_archive_once(record):
    if record.damages:
        raise ViolationError(f"the archive is damaged: {record.damages[0]}")
    found = Counter(job.id for job in record.archived)
    finished = set(removals(record)) | {job.id for job in record.versions[-1].state.dead_jobs()}
    stored = {job.id for version in record.versions for job in version.jobs.values()}
    # One commit may enqueue a job and cancel it: no version has it then.
    finished |= {job.id for job in record.archived if job.status in GIVEN_UP and job.id not in stored}
    for job_id in finished | found.keys():
        if found[job_id] != 1 or job_id not in finished:
            raise ViolationError(f"{job_id} is {found[job_id]} times in the archive", job_id)
    acked = set()
    for call in record.calls.values():
        if call.kind == "ack" and call.is_ok:
            acked |= {job_id for job_id, _ in call.about}
    for job in record.archived:
        if job.id in acked and job.status != "completed":
            raise ViolationError(f"{job.id} was acknowledged and is archived as {job.status}", job.id)


def results_are_those_of_their_jobs(record):
    for job in record.archived:
        if job.result not in (None, job.id):
            raise ViolationError(f"{job.id} has the result of {job.result}", job.id)


def what_was_enqueued_is_somewhere(record):
    stored = {job.id for version in record.versions for job in version.jobs.values()}
    # One that was cancelled by the very commit that enqueued it is in the archive only.
    stored |= {job.id for job in record.archived}
    for call in record.calls.values():
        if call.kind in ("plan", "redrive") and call.is_ok:
            for job_id in call.result:
                if job_id not in stored:
                    raise ViolationError(f"job {job_id} was acknowledged and never stored", job_id, call)


def no_attempt_is_over_before_its_timeout(record):
    begun = {}
    for _, after, job_id, old, new in record.steps:
        if _begins(old, new):
            begun[job_id, new.token] = after.at_s
        was_given_back = old is not None and old.token and new is not None and new.token is None
        if was_given_back and (new.error or "").startswith("timed out") and new.error != old.error:
            took_s = after.at_s - begun[job_id, old.token]
            if took_s + 1e-6 < old.timeout_s:
                raise ViolationError(f"{job_id} was timed out after {took_s:.3f} s", job_id)


def _begins(old, new):
    """Whether a job was claimed in this step."""
    is_claimed = new is not None and new.status is JobStatus.IN_PROGRESS
    return is_claimed and (old is None or old.token != new.token)


_NOT_HERE = {
    # Redriven jobs, ticks, cancelled and expired ones, turns and limits: told by the promises above.
    "nothing_is_enqueued_twice_or_out_of_nowhere",
    "acknowledged_enqueues_are_stored",
    "acks_remove_their_own_claim_exactly_once",
    "jobs_are_served_in_order",
    "the_line_is_in_the_order_of_the_callers",
    "empty_was_true_at_some_moment",
    "no_job_is_taken_from_a_worker_too_early",
    "every_finished_job_is_archived_once",
    "readers_of_the_archive_see_each_job_once",
    "the_archive_tells_what_happened",
    "storage_trouble_is_all_that_callers_ever_see",
}
LIFE_CHECKERS = [
    *(checker for checker in CHECKERS if checker.__name__ not in _NOT_HERE),
    nothing_begins_before_its_time_or_its_parents,
    no_two_live_jobs_have_one_key,
    limits_are_never_exceeded,
    what_is_paused_does_not_begin,
    each_tick_is_fired_once,
    what_was_cancelled_never_begins,
    whoever_leaves_is_in_the_archive_once,
    results_are_those_of_their_jobs,
    what_was_enqueued_is_somewhere,
    no_attempt_is_over_before_its_timeout,
]


def promises_of(seed):
    """What is to be checked of a run with this seed."""
    return LIFE_CHECKERS if lives(seed) else CHECKERS
