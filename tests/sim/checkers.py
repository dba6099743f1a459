"""The promises, as questions to the record of a run.

Each checker raises ViolationError. Between two versions, what happened to each job is seen by
comparing them; what was promised to whom is in the calls.
"""

from collections import Counter, defaultdict
from itertools import pairwise

from bucketq import JobCancelledError, JobNotFoundError, JobStatus, StorageError
from bucketq.wanted import is_wanted
from tests.sim.record import ViolationError

EPSILON_S = 1e-6
CLAIMING = ("dequeue", "dequeue_segment")
# In the calm. Brokers that take the lead in turns pass it on with every heartbeat.
ELECTIONS_MAX = 8
BY_CLAIM = ("ack", "nack", "heartbeat", "heartbeat_segment", "settle_segment")


def check(record, checkers):
    """Run these checkers."""
    for checker in checkers:
        checker(record)


def the_queue_is_readable(record):
    if record.damage:
        raise ViolationError(f"the queue was damaged: {record.damage}")


def versions_strictly_increase(record):
    numbers = [version.state.version for version in record.versions]
    if numbers != list(range(len(numbers))):
        raise ViolationError(f"versions do not grow by one: {numbers}")


def every_version_is_conserved(record):
    for version in record.versions:
        if not version.state.is_conserved():
            raise ViolationError(f"version {version.state.version} is not conserved: {version.state.stats}")


def origin(job):
    """The call that enqueued the job, and which one of that call's jobs it is."""
    payload = job.json()
    return payload["call"], payload["n"]


def nothing_is_enqueued_twice_or_out_of_nowhere(record):
    seen = {}
    for _, after, job_id, old, new in record.steps:
        if old is not None:
            continue
        if job_id in seen.values():
            raise ViolationError(f"job {job_id} came back after it was finished", job_id)
        source = origin(new)
        if source in seen:
            raise ViolationError(
                f"one enqueue made two jobs: {seen[source]} and {job_id}", seen[source], job_id
            )
        seen[source] = job_id
        call = record.calls[source[0]]
        if call.is_refused:
            raise ViolationError(f"a refused enqueue took effect as {job_id}", job_id, call)
        if call.ended_s is not None and after.at_s > call.ended_s and call.is_ok:
            raise ViolationError(f"job {job_id} was acknowledged before it was stored", job_id, call)


def acknowledged_enqueues_are_stored(record):
    stored = {job.id for version in record.versions for job in version.jobs.values()}
    for call in record.calls.values():
        if call.kind in ("enqueue", "transaction") and call.is_ok:
            for job_id in call.result:
                if job_id not in stored:
                    raise ViolationError(f"job {job_id} was acknowledged and never stored", job_id, call)


def removals(record):
    """Who was the holder of each job, by token, when it left the queue, and when that was."""
    gone = {}
    for _, after, job_id, old, new in record.steps:
        if new is None:
            gone[job_id] = old.token, after.at_s
    return gone


def acks_remove_their_own_claim_exactly_once(record):
    gone = removals(record)
    acks = defaultdict(list)
    for call in record.calls.values():
        if call.kind in ("ack", "transaction", "settle_segment") and not call.is_refused:
            for job_id, token in call.about:
                acks[job_id, token].append(call)
    for job_id, (token, at_s) in gone.items():
        if not acks[job_id, token]:
            raise ViolationError(f"job {job_id} left the queue and nobody acknowledged it", job_id)
        if all(call.began_s > at_s for call in acks[job_id, token]):
            raise ViolationError(f"job {job_id} left the queue before its ack", job_id)
    for (job_id, token), calls in acks.items():
        ok = [call for call in calls if call.is_ok]
        if len(ok) > 1:
            raise ViolationError(f"job {job_id} was acknowledged twice", job_id, *ok)
        if ok and (job_id not in gone or gone[job_id][0] != token):
            raise ViolationError(f"a lost claim on job {job_id} was acknowledged", job_id, *ok)
        if ok and gone[job_id][1] > ok[0].ended_s:
            raise ViolationError(f"the ack of {job_id} was confirmed before it was stored", job_id, *ok)


def claims_are_stored_before_they_are_handed_out(record):
    claimed = {}
    for _, after, job_id, _, new in record.steps:
        if new is not None and new.token is not None:
            claimed.setdefault((job_id, new.token), after.at_s)
    for call in record.calls.values():
        if call.kind in CLAIMING and call.is_ok:
            for job_id, token in call.result or ():
                at_s = claimed.get((job_id, token))
                if at_s is None or at_s > call.ended_s:
                    raise ViolationError(
                        f"a claim on {job_id} was handed out that is not stored", job_id, call
                    )


def nobody_gets_what_was_not_asked_for(record):
    entrypoints = {job.id: job.entrypoint for version in record.versions for job in version.jobs.values()}
    for call in record.calls.values():
        if call.kind in CLAIMING and call.is_ok:
            for job_id, _ in call.result or ():
                if not is_wanted(entrypoints[job_id], call.about[0]):
                    raise ViolationError(f"{job_id} was not asked for", job_id, call)


def jobs_are_served_in_order(record):
    filters = {}
    for call in record.calls.values():
        if call.kind in CLAIMING and call.is_ok:
            for _, token in call.result or ():
                filters[token] = call.about[0]
    for before, after in pairwise(record.versions):
        old = before.jobs
        passed_over = [job for job in after.state.queued_jobs() if old.get(job.id) == job]
        if not passed_over:
            continue
        for job in after.state.in_progress_jobs():
            was = old.get(job.id)
            if (was is None or was.token != job.token) and job.token in filters:
                for other in passed_over:
                    wanted = filters[job.token] in (None, other.entrypoint)
                    if wanted and (other.priority, other.sequence) < (job.priority, job.sequence):
                        raise ViolationError(f"{job.id} was served before {other.id}", job.id, other.id)


def the_line_is_in_the_order_of_the_callers(record):
    places = {job.id: job.sequence for version in record.versions for job in version.jobs.values()}
    done = [call for call in record.calls.values() if call.kind == "enqueue" and call.is_ok]
    done.sort(key=lambda call: call.began_s)
    ended = sorted(done, key=lambda call: call.ended_s)
    last_place, behind = 0, None
    for call in done:
        while ended and ended[0].ended_s < call.began_s:
            earlier = ended.pop(0)
            place = max(places[job_id] for job_id in earlier.result)
            if place > last_place:
                last_place, behind = place, earlier
        if min(places[job_id] for job_id in call.result) < last_place:
            raise ViolationError("an enqueue overtook one that had been answered", behind, call)


def empty_was_true_at_some_moment(record):
    for call in record.calls.values():
        if call.kind == "dequeue" and call.is_ok and not call.result:
            waiting = [set(version.state.queued_jobs(call.about[0])) for version in record.during(call)]
            # Within one commit the queue may be empty between two operations, unless a job
            # stood there before and after.
            steadily = [before & after for before, after in pairwise(waiting)]
            if all(waiting) and all(steadily):
                raise ViolationError("a dequeue said empty while jobs were waiting all along", call)


def refusals_were_true_at_some_moment(record):
    for call in record.calls.values():
        if call.kind not in BY_CLAIM or not isinstance(call.error, JobNotFoundError):
            continue
        for job_id, token in call.about:
            held = [version.state.find(job_id) for version in record.during(call)]
            if isinstance(call.error, JobCancelledError) and any(job and job.is_cancelled for job in held):
                continue
            if all(job is not None and job.token == token for job in held):
                raise ViolationError(f"a valid claim on {job_id} was refused", job_id, call)


def no_job_is_taken_from_a_worker_too_early(record):
    beats = {}
    claims = handed_out(record) - {claim for call in record.calls.values() for claim in call.crashed}
    for _, after, job_id, old, new in record.steps:
        was_taken = (
            old is not None
            and (job_id, old.token) in claims
            and new is not None
            and new.token != old.token
            and (new.error or "").startswith("stale")
        )
        if was_taken:
            silent_s = after.at_s - beats[job_id, old.token, old.heartbeat_at]
            if silent_s < record.stale_after_s - EPSILON_S:
                raise ViolationError(f"{job_id} was taken after {silent_s:.3f} s of silence", job_id)
        if new is not None and new.status is JobStatus.IN_PROGRESS:
            beats.setdefault((job_id, new.token, new.heartbeat_at), after.at_s)


def handed_out(record):
    """The claims that somebody was told of."""
    return {
        claim
        for call in record.calls.values()
        if call.kind in CLAIMING and call.is_ok
        for claim in call.result or ()
    }


def only_its_holder_gives_a_job_back_at_no_cost(record):
    given_back = {claim for call in record.calls.values() for claim in call.given_back}
    told = handed_out(record)
    for _, _, job_id, old, new in record.steps:
        if old is None or new is None or old.token is None:
            continue
        if new.attempts < old.attempts and (job_id, old.token) in told - given_back:
            raise ViolationError(f"{job_id} was taken from its worker and has nothing to show for it", job_id)


def attempts_are_only_spent_by_claims(record):
    for _, _, job_id, old, new in record.steps:
        if old is None or new is None:
            continue
        claimed_anew = new.token is not None and new.token != old.token
        if new.attempts > old.attempts and not claimed_anew:
            raise ViolationError(f"{job_id} lost an attempt without being claimed", job_id)
        if new.failures > new.max_attempts or new.crashes > new.max_crashes:
            raise ViolationError(f"{job_id} was tried more often than allowed", job_id)


def segments_hold_what_the_queue_says(record):
    for version in record.versions:
        if version.miscounts:
            raise ViolationError(f"version {version.state.version}: {version.miscounts[0]}")


def what_is_referred_to_exists(record):
    for version in record.versions:
        if missing := version.needs - version.beside:
            raise ViolationError(f"version {version.state.version} needs {sorted(missing)}, not there (yet)")
    for version, following in zip(record.versions, [*record.versions[1:], None], strict=True):
        for removed in record.removals:
            ended_s = following.at_s if following is not None else float("inf")
            if removed.name in version.needs and removed.at_s < ended_s:
                raise ViolationError(
                    f"{removed.by} removed {removed.name} at {removed.at_s:.3f}, which version"
                    f" {version.state.version} of {version.at_s:.3f} needs"
                )


def every_finished_job_is_archived_once(record):
    if record.damages:
        raise ViolationError(f"the archive is damaged: {record.damages[0]}")
    found = Counter(job.id for job in record.archived)
    finished = set(removals(record)) | {job.id for job in record.versions[-1].state.dead_jobs()}
    for job_id in finished | found.keys():
        if found[job_id] != 1 or job_id not in finished:
            raise ViolationError(f"{job_id} is {found[job_id]} times in the archive", job_id)


def readers_of_the_archive_see_each_job_once(record):
    gone = removals(record)
    for call in record.calls.values():
        if call.kind == "read archive" and call.is_ok:
            if call.damages:
                raise ViolationError(f"a reader found the archive damaged: {call.damages[0]}", call)
            found = Counter(call.result)
            for job_id, count in found.items():
                if count > 1:
                    raise ViolationError(f"a reader saw {job_id} {count} times", job_id, call)
            for job_id, (_, at_s) in gone.items():
                if at_s < call.began_s and job_id not in found:
                    raise ViolationError(f"a reader did not see {job_id}", job_id, call)


def the_archive_tells_what_happened(record):
    acks = {}
    for call in record.calls.values():
        if call.kind in ("ack", "transaction", "settle_segment") and call.is_ok:
            acks.update(dict(call.about))
    deaths = {job.id: job for job in record.versions[-1].state.dead_jobs()}
    for job in record.archived:
        is_dead = job.id in deaths
        if (job.status == "dead") != is_dead or (job.id in acks and is_dead):
            raise ViolationError(f"{job.id} is archived as {job.status}", job.id)
        if job.claimed_at is None:
            continue
        if job.attempts_total < len(job.attempts) or job.first_claimed_at > job.claimed_at:
            raise ViolationError(f"the attempts of {job.id} make no sense: {job}", job.id)
        if not job.created_at <= job.claimed_at <= job.finished_at:
            raise ViolationError(f"the times of {job.id} make no sense: {job}", job.id)


def nothing_is_left_behind(record):
    loose = {name for name in record.left_over if not name.startswith("archive/")}
    if garbage := loose - record.versions[-1].needs:
        raise ViolationError(f"nobody removed {sorted(garbage)}")


def payloads_come_back_to_the_byte(record):
    stored = {job.id: job.payload for version in record.versions for job in version.jobs.values()}
    for call in record.calls.values():
        for job_id, payload in call.payloads.items():
            if stored[job_id] != payload:
                raise ViolationError(f"{job_id} came with {payload}, not {stored[job_id]}", job_id, call)


def no_payload_is_declared_lost(record):
    for job in record.versions[-1].state.dead_jobs():
        if "payload" in (job.error or ""):
            raise ViolationError(f"{job.id} is dead: {job.error}", job.id)


def storage_trouble_is_all_that_callers_ever_see(record):
    for call in record.calls.values():
        allowed = (JobNotFoundError, StorageError)
        if call.error is not None and not isinstance(call.error, allowed) and not call.is_refused:
            raise ViolationError(f"a caller got {call.error!r}", call)


def every_caller_that_lives_is_answered(record):
    for call in record.calls.values():
        is_open = call.ended_s is None and not call.is_cancelled and call.process in record.survivors
        if is_open and call.began_s < record.ended_s - record.patience_s:
            raise ViolationError("a call was never answered", call)


def the_lead_stays_where_it_is_once_the_storms_are_over(record):
    epochs = {version.state.epoch for version in record.versions if version.at_s > record.calm_s}
    # Some brokers are started then, and some that were told to go are followed.
    if len(epochs) > ELECTIONS_MAX:
        raise ViolationError(f"brokers take the lead in turns: {sorted(epochs)}")


def everything_is_finished_once_the_storms_are_over(record):
    if not record.is_drained:
        raise ViolationError(f"jobs are left: {record.versions[-1].state.stats}")


CHECKERS = [
    the_queue_is_readable,
    versions_strictly_increase,
    every_version_is_conserved,
    nothing_is_enqueued_twice_or_out_of_nowhere,
    acknowledged_enqueues_are_stored,
    acks_remove_their_own_claim_exactly_once,
    claims_are_stored_before_they_are_handed_out,
    nobody_gets_what_was_not_asked_for,
    jobs_are_served_in_order,
    the_line_is_in_the_order_of_the_callers,
    empty_was_true_at_some_moment,
    refusals_were_true_at_some_moment,
    no_job_is_taken_from_a_worker_too_early,
    attempts_are_only_spent_by_claims,
    only_its_holder_gives_a_job_back_at_no_cost,
    storage_trouble_is_all_that_callers_ever_see,
    every_caller_that_lives_is_answered,
    the_lead_stays_where_it_is_once_the_storms_are_over,
    everything_is_finished_once_the_storms_are_over,
    segments_hold_what_the_queue_says,
    what_is_referred_to_exists,
    nothing_is_left_behind,
    every_finished_job_is_archived_once,
    readers_of_the_archive_see_each_job_once,
    the_archive_tells_what_happened,
    payloads_come_back_to_the_byte,
    no_payload_is_declared_lost,
]

# For real processes, where the moment of a landing is known only as "not before it was sent".
UNTIMED = [
    checker
    for checker in CHECKERS
    if checker
    not in (
        empty_was_true_at_some_moment,
        refusals_were_true_at_some_moment,
        readers_of_the_archive_see_each_job_once,
    )
]
