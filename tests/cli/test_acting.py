"""Acting on jobs and on a queue from the command line, on a file and by way of a broker."""

import os
import time

import pytest

import bucketq.sync
from bucketq.object_name import payload_name
from tests.cli.typed import queue_url, typed


@pytest.fixture(params=["file", "grpc"])
def url(request, tmp_path, monkeypatch):
    with queue_url(request.param, tmp_path) as url:
        monkeypatch.setenv("BUCKETQ_URL", url)
        yield url


@pytest.fixture
def q(url):
    with bucketq.sync.connect(url) as q:
        yield q


@pytest.fixture
def run(capsys):
    return lambda *arguments: typed(capsys, *arguments)


def dead(q, entrypoint="mail", error="no such mailbox"):
    job = q.enqueue(entrypoint, {"to": "ada"}, max_attempts=1)
    [claimed] = q.dequeue(entrypoint)
    q.nack(claimed, error=error)
    return job.id


def test_no_terminal_obeys_the_name_of_a_worker(q, run):
    job = q.enqueue("mail")
    q.worker = "web\x1b[2J"
    q.dequeue("mail")
    told = run("retry", job.id)
    assert told.code == 1
    assert r"runs, on web\x1b[2J;" in told.err


def test_retry_does_a_dead_job_again(q, run):
    job_id = dead(q)
    told = run("retry", job_id)
    assert (told.code, told.err) == (0, "")
    again = q.find(told.out.strip())
    assert (again.redrive_of, again.status, again.json()) == (job_id, "queued", {"to": "ada"})


def test_retry_says_of_any_other_job_what_it_is_and_what_to_do(q, run):
    waiting = q.enqueue("mail").id
    for_later = q.enqueue("mail", delay=600).id
    q.enqueue("runs")
    [running] = q.dequeue("runs", worker="web-3")
    q.enqueue("done")
    [done] = q.dequeue("done")
    q.ack(done)
    told = run("retry", waiting, for_later, running.id, done.id, "never", "--json")
    assert told.code == 1
    refused = told.json["refused"]
    assert "is queued" in refused[waiting]
    assert "is scheduled" in refused[for_later]
    assert "runs, on web-3" in refused[running.id]
    assert "is completed since" in refused[done.id]
    assert "there is no job never" in refused["never"]
    assert told.err.count("bucketq: ") == 5
    assert "bucketq cancel" in refused[waiting]
    assert "bucketq enqueue" in refused[done.id]


def test_retry_does_what_it_can_and_names_the_rest(q, run):
    job_id = dead(q)
    told = run("retry", "never", job_id, job_id)
    assert told.code == 1
    assert q.find(told.out.strip()).redrive_of == job_id
    assert "never" in told.err


def test_a_dead_job_whose_key_is_taken_stays_dead(q, run):
    job_id = q.enqueue("mail", key="one", max_attempts=1).id
    q.nack(q.dequeue("mail")[0], error="no")
    other = q.enqueue("mail", key="one").id
    told = run("retry", job_id)
    assert told.code == 1
    assert other in told.err
    assert q.find(job_id).status == "dead"


def test_redrive_takes_those_that_fit_and_no_more_than_it_is_told(q, run):
    fitting = [dead(q, error="timed out: db") for _ in range(3)]
    others = [dead(q, error="no such mailbox"), dead(q, entrypoint="sms", error="timed out: db")]
    chosen = ("-e", "mail", "--error", "timed out")
    assert run("redrive", *chosen, "--dry-run").out == "3 dead jobs would be redriven\n"
    assert q.stats().dead == 5
    assert run("redrive", *chosen, "--limit", "2", "--json").json == {"redriven": 2, "isDryRun": False}
    assert run("redrive", *chosen).out == "1 dead job redriven\n"
    assert {job.id for job in q.dead()} == set(others)
    assert {job.redrive_of for job in q.jobs(status="queued")} == set(fitting)
    assert run("redrive", "--all").out == "2 dead jobs redriven\n"


@pytest.mark.parametrize("arguments", [[], ["--limit", "5"], ["--dry-run"], ["--json"]])
def test_redrive_takes_all_only_if_asked_to(q, run, arguments):
    dead(q)
    told = run("redrive", *arguments)
    assert (told.code, told.out) == (2, "")
    assert "--entrypoint" in told.err
    assert "--all" in told.err
    assert q.stats().dead == 1


def test_discard_forgets_by_id_or_by_what_fits(q, run):
    by_id, by_error, kept = dead(q), dead(q, error="gone"), dead(q, entrypoint="sms")
    assert run("discard", by_id, by_id).out == "1 dead job discarded\n"
    assert run("discard", "--error", "gone", "--dry-run").out == "1 dead job would be discarded\n"
    assert run("discard", "--error", "gone").out == "1 dead job discarded\n"
    assert [job.id for job in q.dead()] == [kept]
    told = run("discard", by_id)
    assert told.code == 1
    assert "redriven or discarded" in told.err
    assert by_error not in told.err


def test_discard_never_takes_all_unless_it_is_told_so(q, run):
    dead(q)
    told = run("discard")
    assert told.code == 2
    assert "--all" in told.err
    assert q.stats().dead == 1
    assert run("discard", "--all").out == "1 dead job discarded\n"


def test_cancel_ends_what_waits_and_stops_what_runs(q, run):
    waiting = q.enqueue("mail").id
    q.enqueue("runs")
    [running] = q.dequeue("runs")
    told = run("cancel", waiting, running.id)
    assert told == (0, f"{waiting} cancelled\n{running.id} stopping\n", "")
    assert q.find(waiting) is None
    with pytest.raises(bucketq.JobCancelledError):
        q.heartbeat(running)


def test_cancel_says_what_a_job_is_that_it_cannot_end(q, run):
    job_id = dead(q)
    told = run("cancel", job_id, "never")
    assert (told.code, told.out) == (1, "")
    assert f"job {job_id} is dead; `bucketq retry`" in told.err
    assert "there is no job never" in told.err


def test_pause_and_resume(q, run):
    q.enqueue("mail")
    q.enqueue("sms")
    assert run("pause", "mail").out == "paused: mail\n"
    assert q.dequeue("mail") == []
    assert run("pause", "--json").json["isPaused"] is True
    assert q.dequeue("sms") == []
    told = run("resume", "mail").out
    assert "but the whole queue is paused" in told
    assert "nothing" not in run("limit").out
    run("pause", "mail")
    assert "still paused: mail" in run("resume").out
    assert len(q.dequeue("sms")) == 1
    told = run("resume", "mial")
    assert told.out == "was not paused: mial\nstill paused: mail\n"
    assert run("resume", "mail").out == "resumed: mail\n"
    assert len(q.dequeue("mail")) == 1


def test_limits_are_set_shown_and_removed(q, run):
    assert run("limit", "mail", "--max-running", "1").code == 0
    assert run("limit", "--limit-key", "user-*", "--rate", "2", "--burst", "5").code == 0
    limits = q.limits()
    assert limits.entrypoints["mail"].max_running == 1
    assert (limits.limit_keys["user-*"].rate, limits.limit_keys["user-*"].burst) == (2, 5)
    shown = run("limit").out
    assert "mail" in shown
    assert "1 at the same time" in shown
    assert "limit key user-*" in shown
    assert "2 a second, 5 at once" in shown
    assert run("limit", "mail", "--remove", "--json").json["types"] == {}
    assert not q.limits().entrypoints


@pytest.mark.parametrize(
    "arguments", [("--rate", "3"), ("mail",), ("mail", "--rate", "3", "--remove"), ("mail", "--burst", "3")]
)
def test_half_a_limit_is_refused(q, run, arguments):
    told = run("limit", *arguments)
    assert told.code == 2
    assert told.err.startswith("bucketq: ")
    assert not q.limits()


def test_schedules_are_added_listed_and_removed(q, run):
    added = run("schedules", "add", "report", "mail", '{"to": "ada"}', "--cron", "30 9 * * *", "--json")
    assert added.json["nextAt"].endswith("T09:30:00Z")
    run("schedules", "add", "poll", "fetch", "--every", "90s", "--key", "poll")
    listed = run("schedules").out
    assert "30 9 * * * UTC" in listed
    assert "every 90 s" in listed
    by_name = {one["name"]: one for one in run("schedules", "--json").json}
    assert by_name["report"]["job"]["payload"] == {"to": "ada"}
    assert by_name["poll"]["every"] == 90
    assert run("schedules", "remove", "report").out == "removed: report\n"
    assert [one.name for one in q.schedules()] == ["poll"]
    told = run("schedules", "remove", "report")
    assert told.code == 1
    assert "there are: poll" in told.err


def test_a_schedule_that_makes_no_sense_is_refused_in_a_sentence(q, run):
    for arguments in (("--cron", "sometimes"), (), ("--cron", "* * * * *", "--every", "60s")):
        told = run("schedules", "add", "report", "mail", *arguments)
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith("bucketq: ")
    assert "no JSON" in run("schedules", "add", "report", "mail", "{to", "--every", "60s").err
    assert q.schedules() == []


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_gc_removes_what_nothing_refers_to(q, run, tmp_path, monkeypatch):
    q.enqueue("mail")
    name = payload_name(1, "0" * 16)
    path = tmp_path / "queue" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"left behind")
    monkeypatch.setenv("BUCKETQ_COLLECT_AFTER_S", "3600")
    assert run("gc", "--json").json["removed"] == []
    hours_ago = time.time() - 7200
    os.utime(path, (hours_ago, hours_ago))
    assert run("gc", "--dry-run", "--json").json["isDryRun"]
    told = run("gc", "--dry-run")
    assert name in told.out
    assert "1 object, 11 bytes, would be removed" in told.out
    assert path.exists()
    assert run("gc", "--json").json["sizeBytes"] == 11
    assert not path.exists()


def test_gc_by_way_of_a_broker_asks_the_broker(q, run):
    q.enqueue("mail")
    assert run("gc").out == "0 objects, 0 bytes, removed\n"


def test_a_queue_that_cannot_be_reached_is_a_sentence(run, monkeypatch):
    monkeypatch.setenv("BUCKETQ_URL", "grpc://127.0.0.1:1")
    monkeypatch.setenv("BUCKETQ_RETRY_FOR_S", "0.5")
    told = run("pause")
    assert (told.code, told.out) == (2, "")
    assert told.err.count("\n") == 1
