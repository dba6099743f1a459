"""What `differences` tells of random histories: each job that changed, and nothing else."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bucketq import Job, Settings
from bucketq.archived_job import decode_archived
from bucketq.codec import decode, encode
from bucketq.difference import differences
from bucketq.errors import BucketQError
from bucketq.job import Claim, JobStatus
from bucketq.limits import Limit
from bucketq.operation import Ack, Bury, Dequeue, Enqueue, Heartbeat, Nack, Release
from bucketq.operation.limits import Pause, Resume, SetLimit
from bucketq.operation.schedules import Fire, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive
from bucketq.schedule import Schedule
from bucketq.state import QueueState

START = datetime(2026, 1, 1, tzinfo=UTC)


def job(number, now, **options):
    return Job(id=f"job-{number}", entrypoint="mail", created_at=now, max_attempts=2, **options)


def operations(number, now, state):
    """What could be done now; `number` names what is new."""
    held = [Claim.of(one) for one in state.in_progress_jobs()]
    first = [one.id for one in state.jobs[:1]]
    later = now + timedelta(minutes=5)
    yield Enqueue((job(number, now),))
    yield Enqueue((job(number, now, run_at=later, status=JobStatus.SCHEDULED),))
    if first:
        yield Enqueue((job(number, now, after=tuple(first)),))
        yield Cancel(first[0], now)
        yield Redrive(first[0], f"job-{number}", now)
        yield Discard(first[0])
    yield Dequeue("mail", 1, f"token-{number}", now, "web-3")
    for claim in held[:2]:
        yield Ack(claim, now)
        yield Nack(claim, "refused", now)
        yield Nack(claim, "refused", now, 30.0)
        yield Bury(claim, "never", now)
        yield Heartbeat(claim, now, 0.5, "half")
        yield Heartbeat(claim, now)
        yield Release((claim,), now)
    model = Schedule(name="poll", every_s=60.0, job=job("poll", now))
    yield from (PutSchedule(model, now), RemoveSchedule("poll"), Fire(now))
    yield from (Pause("mail"), Pause(None), Resume("mail"), Resume(None))
    yield SetLimit("mail", None, Limit(max_running=1 + number % 2))


def history(choices, state, number=0):
    for choice in choices:
        number += 1
        now = START + timedelta(seconds=20 * number)
        possible = list(operations(number, now, state))
        try:
            state.apply(possible[choice % len(possible)])
        except BucketQError:
            continue
        state.wake(now)
    return number


def fresh(*, archives=True):
    state = QueueState()
    state.archives, state.settings = archives, Settings()
    return state


def copy(state):
    return decode(encode(state))


def changed_jobs(before, after):
    old, new = ({one.id: one for one in state.jobs} for state in (before, after))
    lines = {line for line in after.ledger.lines() if line not in set(before.ledger.lines())}
    finished = {decode_archived(line).id for line in lines}
    return {name for name in old | new if old.get(name) != new.get(name)} | (finished - old.keys())


def others(state):
    return (
        list(state.schedules),
        state.limits,
        dict(state.batches),
        state.enqueued_total,
        state.completed_total,
        state.dead_total,
        state.cancelled_total,
    )


choices = st.lists(st.integers(0, 99), max_size=30)


@given(first=choices, then=choices)
def test_each_job_that_changed_is_named_and_no_other(first, then):
    state = fresh()
    number = history(first, state)
    before = copy(state)
    history(then, state, number)
    after = copy(state)
    told = list(differences(before, after))
    named = {change.name for change in told if change.name.startswith("job-")}
    assert named == {name for name in changed_jobs(before, after) if name.startswith("job-")}
    if others(before) != others(after):
        assert told


@given(first=choices)
def test_of_equal_states_nothing_is_told(first):
    state = fresh()
    history(first, state)
    assert list(differences(copy(state), copy(state))) == []


@given(first=choices, then=choices)
def test_it_is_one_sentence_for_each_thing_that_happened(first, then):
    state = fresh(archives=False)
    number = history(first, state)
    before = copy(state)
    history(then, state, number)
    for change in differences(before, copy(state)):
        assert change.what
        assert "\n" not in "".join(change)
        assert change.how == change.how.strip(" ,:")
