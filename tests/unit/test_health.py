"""What the doctor reads from a queue's state."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import astuple, replace

from bucketq.doctor.file_system import check_file_system
from bucketq.doctor.finding import Level
from bucketq.doctor.health import diagnose
from bucketq.job import Claim, Job
from bucketq.limits import Limit, Limits
from bucketq.object_name import segment_name
from bucketq.operation import DequeueSegment
from bucketq.segment_lines import SegmentWriter
from bucketq.settings import Settings
from bucketq.state import QueueState

NOW = datetime(2026, 2, 15, 10, tzinfo=UTC)


def job(number, minutes_ago=0, **more):
    created_at = NOW - timedelta(minutes=minutes_ago)
    return Job(id=f"job-{number}", entrypoint="send", created_at=created_at, sequence=number, **more)


def running(number, minutes_silent=0, **more):
    heartbeat_at = NOW - timedelta(minutes=minutes_silent)
    more = {"token": "t", "worker": "host:1", "attempts": 1, "heartbeat_at": heartbeat_at, **more}
    return replace(job(number), status="in_progress", **more)


def findings(*jobs, size_bytes=1000, limits=None, settings=None):
    state = QueueState(jobs, enqueued_total=len(jobs), limits=limits)
    return list(diagnose(state, size_bytes, settings or Settings(), NOW))


def worth_a_look(*jobs, **more):
    return [one for one in findings(*jobs, **more) if one.level is not Level.OK]


def test_an_empty_queue_is_well():
    assert worth_a_look() == []


def test_a_busy_queue_is_well_and_counted():
    told = findings(job(1), job(2), running(3))
    assert {one.level for one in told} == {Level.OK}
    assert "2 waiting, 1 running" in told[0].found


@pytest.mark.parametrize(("part", "level"), [(0.4, Level.OK), (0.6, Level.WARNING), (0.95, Level.PROBLEM)])
def test_the_size_of_the_file_is_held_against_its_limit(part, level):
    settings = Settings(queue_bytes_max=1_000_000)
    [finding] = [
        one for one in findings(size_bytes=int(part * 1e6), settings=settings) if one.about == "queue.json"
    ]
    assert finding.level is level


def test_running_jobs_that_are_silent_are_stuck():
    settings = Settings(stale_after_s=300)
    assert worth_a_look(running(1, minutes_silent=4), settings=settings) == []
    [finding] = worth_a_look(running(1, minutes_silent=4), running(2, minutes_silent=6), settings=settings)
    assert finding.level is Level.WARNING
    assert finding.found.startswith("1 have shown no sign of life")
    assert "job-2 (send) of worker host:1 for 6 min" in finding.found


def test_whole_segments_whose_worker_is_silent_are_stuck():
    writer = SegmentWriter()
    for number in range(1, 4):
        writer.add(job(number))
    segment, _ = writer.finish(segment_name(1, "0" * 16))
    state = QueueState()
    state.enqueue_segments([segment])
    assert DequeueSegment("send", "token", NOW, "host:1")(state) is not None

    def told(minutes):
        found = diagnose(state, 1000, Settings(stale_after_s=300), NOW + timedelta(minutes=minutes))
        return next(one for one in found if one.about == "running jobs")

    assert told(4).level is Level.OK
    assert told(6).level is Level.WARNING
    assert told(6).found.startswith("3 have shown no sign of life")
    assert "a whole segment (send) of worker host:1 for 6 min" in told(6).found


def test_jobs_that_kill_their_workers_are_named():
    [finding] = worth_a_look(job(1, crashes=1), job(2, crashes=2, attempts=2))
    assert "1 jobs have lost 2 workers or more: job-2 (send)" in finding.found


def test_work_that_nobody_does_is_told():
    assert worth_a_look(job(1, minutes_ago=9)) == []
    [finding] = worth_a_look(job(1, minutes_ago=90), job(2))
    assert "nobody works on send: 2 wait, the oldest for 90 min" in finding.found
    assert "bucketq work" in finding.advice
    assert worth_a_look(job(1, minutes_ago=90), running(2)) == [], "somebody does"


def test_the_oldest_that_waits_is_named():
    told = findings(job(1, minutes_ago=3), job(2, minutes_ago=8), job(3))
    assert any("the oldest, job-2 (send), has waited for 8 min" in one.found for one in told)


def test_pauses_are_told_and_explain_why_nobody_works():
    [finding] = worth_a_look(job(1, minutes_ago=90), limits=Limits(paused=("send",)))
    assert (finding.level, finding.found) == (Level.NOTE, "send is paused; 1 of its jobs wait")
    [finding] = worth_a_look(job(1, minutes_ago=90), limits=Limits(is_paused=True))
    assert finding.level is Level.WARNING


def test_a_limit_may_be_why_nothing_runs():
    limits = Limits(entrypoints={"send": Limit(rate=1 / 3600)})
    assert worth_a_look(job(1, minutes_ago=90), limits=limits) == []


def test_dead_jobs_are_counted_by_entrypoint():
    state = QueueState()
    for number in (1, 2):
        state.enqueue(job(number, max_attempts=1))
        claimed = state.dequeue(None, f"token {number}", NOW)
        state.nack(Claim.of(claimed), "no such customer", NOW)
    told = [one for one in diagnose(state, 1000, Settings(), NOW) if one.about == "dead jobs"]
    assert "2 have used up their attempts: 2 of send" in told[0].found


def finished(number, minutes_ago):
    """A state with a job that is done and on its way to the archive."""
    state = QueueState()
    state.archives = True
    state.enqueue(job(number, minutes_ago))
    moment = NOW - timedelta(minutes=minutes_ago)
    state.ack(Claim.of(state.dequeue(None, "token", moment)), moment)
    return state


def test_an_archive_that_lags_is_told():
    settings = Settings(archive_after_s=600)
    assert all(one.about != "archive" for one in diagnose(finished(1, 19), 1000, settings, NOW))
    [finding] = [one for one in diagnose(finished(1, 21), 1000, settings, NOW) if one.about == "archive"]
    assert (finding.level, finding.found[:15]) == (Level.NOTE, "1 finished jobs")


def test_batches_that_do_not_get_to_the_archive_are_told():
    state = finished(1, 0)
    [entry] = state.ledger.finished
    for version in range(1, 6):
        state.ledger.add(*astuple(entry))
        state.ledger.seal(version)
    [finding] = [one for one in diagnose(state, 1000, Settings(), NOW) if one.about == "archive"]
    assert (finding.level, finding.found[:9]) == (Level.WARNING, "5 batches")


def mounts(tmp_path, *lines):
    path = tmp_path / "mountinfo"
    path.write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))
    return path


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/srv/queue.json", Level.OK),
        ("/srv/far away/queue.json", Level.WARNING),
        ("/srv/ferne Städte/queue.json", Level.WARNING),
        ("/srv/\udcff/queue.json", Level.WARNING),
        ("/x", Level.OK),
    ],
)
def test_a_network_file_system_is_told(tmp_path, path, level):
    table = mounts(
        tmp_path,
        "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw",
        "40 21 0:40 / /srv/far\\040away rw shared:2 - nfs4 server:/export rw",
        "41 21 0:41 / /srv/ferne\\040Städte rw - nfs4 server:/export rw",
        "42 21 0:42 / /srv/\udcff rw - nfs4 server:/export rw",
    )
    finding = check_file_system(Path(path), table)
    assert finding is not None
    assert finding.level is level


def test_where_the_system_does_not_tell_nothing_is_said(tmp_path):
    assert check_file_system(Path("/srv/queue.json"), tmp_path / "missing") is None
