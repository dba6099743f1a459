"""What a timeline tells of jobs in every stage of their life."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, decode_archived, encode_archived
from bucketq.job import STALE, Attempt, Job, JobStatus, Outcome
from bucketq.timeline import timeline

T0 = datetime(2026, 2, 15, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def tried(begin: float, end: float, outcome: Outcome, error: str | None = None) -> Attempt:
    return Attempt(claimed_at=at(begin), ended_at=at(end), outcome=outcome, worker="w:1", error=error)


FAILED = tried(2, 9, Outcome.FAILED, "ConnectionError: refused\nand more")
JOB = Job(id="1", entrypoint="mail", created_at=T0)


def told(job: Job) -> list[tuple[float, str]]:
    return [((when - T0).total_seconds(), what) for when, what in timeline(job)]


def told_of_archived(job: Job, status: FinishedStatus, **end: object) -> list[tuple[float, str]]:
    archived = decode_archived(encode_archived(job, status, job.claimed_at, at(90), **end))
    return [((when - T0).total_seconds(), what) for when, what in timeline(archived)]


def test_a_job_that_waits_tells_when_it_will_expire() -> None:
    assert told(replace(JOB, expires_at=at(60))) == [(0, "enqueued"), (60, "expires")]


def test_a_job_for_later_tells_when_it_is_due() -> None:
    later = replace(JOB, status=JobStatus.SCHEDULED, run_at=at(3600), redrive_of="0")
    assert told(later) == [(0, "enqueued, to do 0 again"), (3600, "due")]


def test_a_retry_is_due_after_the_failure_and_before_the_claim_that_follows() -> None:
    waiting = replace(JOB, status=JobStatus.SCHEDULED, attempts=1, history=(FAILED,), run_at=at(40))
    beginning = [
        (0, "enqueued"),
        (2, "claimed by w:1"),
        (9, "failed: ConnectionError: refused"),
        (40, "due"),
    ]
    assert told(waiting) == beginning
    running = replace(
        waiting,
        status=JobStatus.IN_PROGRESS,
        claimed_at=at(41),
        worker="w:2",
        heartbeat_at=at(50),
        progress=0.4,
        note="page 4",
    )
    assert told(running) == [*beginning, (41, "claimed by w:2"), (50, "last heartbeat: 40%, page 4")]


def test_the_order_is_that_of_the_events_also_where_clocks_differ() -> None:
    early = replace(JOB, status=JobStatus.IN_PROGRESS, claimed_at=at(-5), heartbeat_at=at(-5))
    assert told(early) == [(0, "enqueued"), (-5, "claimed")]


def test_what_an_error_says_by_itself_is_not_said_twice() -> None:
    stale = replace(JOB, attempts=1, history=(tried(2, 9, Outcome.STALE, STALE),))
    assert told(stale)[-1] == (9, STALE)
    slow = replace(JOB, attempts=1, history=(tried(2, 9, Outcome.TIMED_OUT, "timed out after 5 s"),))
    assert told(slow)[-1] == (9, "timed out after 5 s")


def test_a_dead_job_tells_the_same_in_the_queue_and_in_the_archive() -> None:
    running = replace(JOB, attempts=2, history=(FAILED,), claimed_at=at(80), worker="w:2")
    last = Attempt(
        claimed_at=at(80), ended_at=at(90), outcome=Outcome.FAILED, worker="w:2", error="ValueError"
    )
    dead = replace(JOB, status=JobStatus.DEAD, attempts=2, history=(FAILED, last), error="ValueError")
    assert told(dead)[-3:] == [(80, "claimed by w:2"), (90, "failed: ValueError"), (90, "dead")]
    assert told_of_archived(running, FinishedStatus.DEAD, error="ValueError") == told(dead)


def test_a_completed_job_ends_with_that() -> None:
    running = replace(JOB, attempts=1, claimed_at=at(2), worker="w:1")
    completed = [(0, "enqueued"), (2, "claimed by w:1"), (90, "completed")]
    assert told_of_archived(running, FinishedStatus.COMPLETED) == completed


def test_a_job_that_nobody_held_at_its_end_tells_why_it_ended() -> None:
    cancelled = told_of_archived(
        replace(JOB, attempts=1, history=(FAILED,)), FinishedStatus.CANCELLED, error="replaced by 2"
    )
    assert cancelled[-2:] == [(9, "failed: ConnectionError: refused"), (90, "cancelled: replaced by 2")]
    silent = replace(JOB, attempts=1, claimed_at=at(2), worker="w:1", is_cancelled=True)
    assert told_of_archived(silent, FinishedStatus.CANCELLED, error=STALE)[-2:] == [
        (90, STALE),
        (90, "cancelled"),
    ]
