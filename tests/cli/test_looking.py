"""Looking at a queue from the command line, on a file and by way of a broker."""

import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fcntl import ioctl
from types import SimpleNamespace

import msgspec
import pytest

import bucketq.sync
from bucketq.cli.__main__ import main
from bucketq.told import JobTold
from tests.acceptance.served import served


def on_file(folder):
    return f"file://{folder}/queue.json"


@contextmanager
def file_url(folder):
    yield on_file(folder)


@contextmanager
def broker_url(folder):
    with served(on_file(folder)) as broker:
        yield f"grpc://{broker.address}"


WAYS = {"file": file_url, "broker": broker_url}


@pytest.fixture
def bucketq_(capsysbinary):
    """Runs a command; gives what it printed, and has it checked how it ended."""

    def run(*arguments, code=0, says=""):
        capsysbinary.readouterr()
        assert main([*map(str, arguments)]) == code
        out, err = capsysbinary.readouterr()
        assert re.search(says, err.decode()) if says else not err, err
        return out.decode(errors="surrogateescape")

    return run


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module", params=WAYS)
def filled(request, tmp_path_factory):
    """A queue with a job of each kind, which is only looked at."""
    folder = tmp_path_factory.mktemp(request.param)
    with WAYS[request.param](folder) as url, bucketq.sync.connect(url) as q:
        done = q.enqueue("thumb", {"image": "cat.png"})
        q.dequeue("thumb")
        q.ack(done, {"width": 80})
        dead = q.enqueue("mail", {"to": "nobody"}, max_attempts=1)
        [job] = q.dequeue("mail")
        try:
            raise ConnectionError("refused\x1b[2J")
        except ConnectionError as error:
            q.nack(job, error)
        running = q.enqueue("mail", {"to": "alice"})
        [job] = q.dequeue("mail")
        q.heartbeat(job, 0.4, "page 4")
        waiting = q.enqueue("mail", {"to": "bob"}, key="bob")
        large = q.enqueue("mail", b"\x00" + os.urandom(100_000))
        later = q.enqueue("mail", delay=3600)
        many = list(q.enqueue_many("many", range(30), 9))
        q.pause("many")
        yield SimpleNamespace(
            url=url,
            done=done.id,
            dead=dead.id,
            running=running.id,
            waiting=waiting.id,
            large=large,
            later=later.id,
            many=many,
        )


def test_jobs_are_listed_filtered_and_limited(filled, bucketq_):
    def ids(*options, **how):
        return [line.split()[0] for line in bucketq_("jobs", filled.url, *options, **how).splitlines()[1:]]

    order = [filled.running, filled.waiting, filled.large.id, *filled.many, filled.later, filled.dead]
    assert ids() == order
    told = bucketq_("jobs", filled.url, "--status", "in_progress")
    assert re.search(rf"{filled.running}  in_progress +\d\S+ +1/3  mail  40% page 4\n", told)
    told = bucketq_("jobs", filled.url, "--status", "dead")
    assert told.endswith(r"1/1  mail  ConnectionError: refused\x1b[2J" + "\n"), "no terminal obeys an error"
    assert ids("--entrypoint", "mail", "--status", "scheduled") == [filled.later]
    assert ids("--text", "bob") == [filled.waiting]
    assert ids("--older-than", "1h") == []
    assert ids("--limit", "5", says="5 are shown, and there are more; --limit 0 lists all") == order[:5]
    assert ids("--limit", "1", says="1 is shown, and there are more") == order[:1]
    bucketq_("jobs", filled.url, "--status", "lost", code=2, says="no status 'lost'")
    bucketq_("jobs", filled.url, "--older-than", "soon", code=2, says="--older-than takes a number")


def test_jobs_and_one_job_in_json_are_what_rest_tells(filled, bucketq_):
    told = lines_of(bucketq_("jobs", filled.url, "--json", "--limit", 0))
    assert len(told) == 35
    names = {field.encode_name for field in msgspec.structs.fields(JobTold)}
    assert all(job.keys() <= names for job in told)
    waiting = json.loads(bucketq_("show", filled.waiting, "--url", filled.url, "--json"))
    assert waiting in told
    assert (waiting["type"], waiting["payload"], waiting["key"]) == ("mail", {"to": "bob"}, "bob")
    done = json.loads(bucketq_("show", filled.done, "--url", filled.url, "--json"))
    assert (done["status"], done["result"]) == ("completed", {"width": 80})


def test_a_job_is_shown_with_its_timeline_errors_and_payload(filled, bucketq_):
    told = bucketq_("show", filled.dead, "-u", filled.url)
    assert told.startswith(f"{filled.dead}  dead\n")
    for part in ("enqueued", "claimed by ", r"failed: ConnectionError: refused\x1b[2J", "dead"):
        assert re.search(rf"  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\dZ  {re.escape(part)}", told), part
    assert 'raise ConnectionError("refused' in told, "the traceback"
    assert '\nPayload\n  {\n    "to": "nobody"\n  }\n' in told
    assert "\nattempts      1 of 1, crashes 0 of 1\n" in told
    told = bucketq_("show", filled.waiting, "-u", filled.url)
    assert "\nentrypoint    mail\nattempts      0 of 3, crashes 0 of 3\nkey           bob\n\n" in told
    told = bucketq_("show", filled.done, "-u", filled.url)
    assert "completed" in told
    assert '\nResult\n  {\n    "width": 80\n  }\n' in told
    assert "40%, page 4" in bucketq_("show", filled.running, "-u", filled.url)
    assert filled.many[-1] in bucketq_("show", filled.many[-1], "-u", filled.url)
    said = "neither in the queue nor in its archive"
    assert bucketq_("show", "nobody", "-u", filled.url, code=1, says=said) == ""


def test_a_payload_is_written_as_it_is(filled, bucketq_):
    assert "100001 bytes, in an object; --payload" in bucketq_("show", filled.large.id, "-u", filled.url)
    written = bucketq_("show", filled.large.id, "-u", filled.url, "--payload")
    assert written.encode(errors="surrogateescape") == filled.large.payload
    assert bucketq_("show", filled.done, "-u", filled.url, "--payload") == '{"image":"cat.png"}'


def test_stats_tell_how_the_queue_stands(filled, bucketq_):
    told = json.loads(bucketq_("stats", filled.url, "--json"))
    counts = {"queued": 32, "scheduled": 1, "blocked": 0, "inProgress": 1, "dead": 1}
    assert {name: told[name] for name in counts} == counts
    assert (told["enqueuedTotal"], told["completedTotal"], told["deadTotal"]) == (36, 1, 1)
    assert {"type": "many", "queued": 30, "isPaused": True} in told["types"]
    assert ("leader" in told) == filled.url.startswith("grpc")
    text = bucketq_("stats", filled.url)
    assert re.search(r" 30 +0 +0 +0 +0  many  \(paused\)\n", text)
    assert "36 enqueued, 1 completed, 1 dead, 0 cancelled" in text
    assert re.search(r"leader +(none|127.0.0.1:\d+)", text)


def test_the_archive_is_listed_and_counted(filled, bucketq_):
    told = bucketq_("archive", filled.url)
    assert re.search(rf"{filled.done}  completed  \S+ \S+Z +[\d.]+m?s  thumb\n", told)
    assert re.search(rf"{filled.dead}  dead .* mail  ConnectionError: refused", told)
    [dead] = lines_of(bucketq_("archive", filled.url, "--status", "dead", "--since", "1h", "--json"))
    assert (dead["id"], dead["payload"]) == (filled.dead, {"to": "nobody"})
    assert bucketq_("archive", filled.url, "--since", "2025-01-01", "--until", "2026-01-01") == ""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert filled.done in bucketq_("archive", filled.url, "--since", today, "-e", "thumb")
    assert len(bucketq_("archive", filled.url, "--limit", 1, says="there are more").splitlines()) == 2
    summary = json.loads(bucketq_("archive", filled.url, "--summary", "--json"))
    assert [one["type"] for one in summary] == ["mail", "thumb"]
    assert summary[0]["dead"] == summary[1]["completed"] == 1
    assert bucketq_("archive", filled.url, "--summary").split() == [
        *("completed", "dead", "cancelled", "expired", "entrypoint"),
        *("0", "1", "0", "0", "mail", "1", "0", "0", "0", "thumb"),
    ]
    bucketq_("archive", filled.url, "--since", "yesterday", code=2, says="--since takes how long ago")


def test_the_archive_lists_the_newest_first(tmp_path, bucketq_):
    with bucketq.sync.connect(on_file(tmp_path)) as q:
        finished = []
        for _ in range(60):
            finished.append(q.enqueue("mail").id)
            q.ack(q.dequeue("mail")[0])
    told = lines_of(bucketq_("archive", on_file(tmp_path), "--json", says="50 are shown"))
    assert [one["id"] for one in told] == finished[:9:-1]
    told = lines_of(bucketq_("archive", on_file(tmp_path), "--json", "--limit", "0"))
    assert [one["id"] for one in told] == finished[::-1]


def test_a_queue_that_is_not_there_is_told(tmp_path, bucketq_):
    for command in ("jobs", "stats", "archive"):
        assert bucketq_(command, on_file(tmp_path), code=2, says="there is no queue at ") == ""


def test_looking_changes_nothing(tmp_path, bucketq_, monkeypatch):
    # By these there would be a lot to do, for whoever does chores.
    monkeypatch.setenv("BUCKETQ_ARCHIVE_AFTER_S", "0.001")
    monkeypatch.setenv("BUCKETQ_HOT_JOBS_MAX", "100")
    url = on_file(tmp_path)
    with bucketq.sync.connect(url) as q:
        q.enqueue_many("mail", range(20_000))
        [job] = q.dequeue("mail")
        q.ack(job)
        last = q.enqueue("mail")

    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    before = files()
    assert len(before) > 3, "there is a backlog"
    for looking in (["jobs", "--text", "x"], ["stats"], ["archive"], ["show", job.id], ["show", last.id]):
        bucketq_(*looking, "--url", url)
    assert files() == before


COMMAND = [sys.executable, "-m", "bucketq"]


@pytest.fixture
def deep(tmp_path):
    url = on_file(tmp_path)
    with bucketq.sync.connect(url) as q:
        q.enqueue_many("an_entrypoint_with_a_long_name", [{"n": n} for n in range(3000)])
        yield url, q


def test_a_pipe_that_is_closed_early_is_no_trouble(deep):
    done = subprocess.run(
        f"{sys.executable} -m bucketq jobs {deep[0]} --limit 0 | head -2; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (141, "", 2)


def on_terminal(command, *, until, **variables):
    """What a command shows on a terminal of 80 columns, until something is to be seen, or the end."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True
    )
    os.close(slave)
    shown = b""
    try:
        with suppress(OSError):  # that is how a terminal ends
            while until not in shown and (piece := os.read(master, 65536)):
                shown += piece
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return shown.decode()


def test_a_terminal_of_80_columns_is_never_too_narrow(deep):
    shown = on_terminal([*COMMAND, "jobs", deep[0], "--limit", "3"], until=b"\0", NO_COLOR="1")
    rows = [line for line in shown.replace("\r", "").split("\n") if "queued" in line]
    assert len(rows) == 3
    plain = [re.sub(r"\x1b\[[\d;?]*\w", "", row) for row in rows]
    assert all(len(row) <= 80 and row.endswith("…") for row in plain), plain
    assert all(re.match(r"[\da-f-]{36} ", row) for row in plain), "an id is never cut"


def test_a_watched_list_is_drawn_anew_on_a_terminal(deep):
    shown = on_terminal([*COMMAND, "jobs", deep[0], "--watch"], until=b"queued")
    assert "\x1b[?1049h" in shown, "on a screen of its own"
    shown = on_terminal([*COMMAND, "stats", deep[0], "--watch"], until=b"in total")
    assert "3,000" in shown


@contextmanager
def watching(*arguments):
    """The lines of a command that goes on in a pipe."""
    process = subprocess.Popen([*COMMAND, *arguments, "--watch"], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_watched_list_tells_each_change_in_a_pipe(tmp_path):
    url = on_file(tmp_path)
    with bucketq.sync.connect(url) as q:
        first = q.enqueue("mail")
        with watching("jobs", url) as lines, watching("jobs", url, "--json") as objects:
            assert re.match(rf"{first.id}  queued ", lines.readline())
            assert json.loads(objects.readline())["status"] == "queued"
            [job] = q.dequeue()
            assert re.match(rf"{first.id}  in_progress ", lines.readline())
            assert json.loads(objects.readline())["status"] == "in_progress"
            q.heartbeat(job)
            second = q.enqueue("mail")
            assert re.match(rf"{second.id}  queued ", lines.readline()), "that a worker lives is no news"
            assert json.loads(objects.readline())["id"] == second.id
            q.ack(job)
            assert re.match(rf"{first.id}  gone", lines.readline())
            assert json.loads(objects.readline()) == {"id": first.id, "status": "gone"}


def test_a_watched_job_that_is_pushed_out_of_a_list_is_not_gone(tmp_path):
    url = on_file(tmp_path)
    with bucketq.sync.connect(url) as queue:
        queue.enqueue("later")
        with watching("jobs", url, "--limit", "1") as lines:
            assert "later" in lines.readline()
            urgent = queue.enqueue("urgent", priority=-1)
            assert "urgent" in lines.readline()
            queue.cancel(urgent)
            # What comes next of the other one is that it is in the list again.
            told = [lines.readline() for _ in range(2)]
            assert f"{urgent.id}  gone" in [line.strip() for line in told]


def test_watched_stats_tell_each_change_in_a_pipe(tmp_path):
    url = on_file(tmp_path)
    with bucketq.sync.connect(url) as q:
        q.enqueue("mail")
        with watching("stats", url) as lines, watching("stats", url, "--json") as objects:
            assert "1 queued, 0 scheduled" in lines.readline()
            assert json.loads(objects.readline())["queued"] == 1
            q.enqueue("mail")
            assert "2 queued" in lines.readline()
            assert json.loads(objects.readline())["queued"] == 2
