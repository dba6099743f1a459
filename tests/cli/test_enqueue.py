"""`bucketq enqueue`: payloads from everywhere, options, many lines, and waiting for the result."""

import io
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import bucketq.sync
from tests.cli.typed import queue_url, typed


@pytest.fixture(params=["file", "grpc"])
def q(request, tmp_path, monkeypatch):
    with queue_url(request.param, tmp_path) as url:
        monkeypatch.setenv("BUCKETQ_URL", url)
        with bucketq.sync.connect(url) as q:
            yield q


@pytest.fixture
def on_file(tmp_path, monkeypatch):
    url = f"file://{tmp_path}/queue.json"
    monkeypatch.setenv("BUCKETQ_URL", url)
    with bucketq.sync.connect(url) as q:
        yield q


@pytest.fixture
def run(capsys):
    return lambda *arguments: typed(capsys, *arguments)


@pytest.fixture
def stdin(monkeypatch, tmp_path):
    """Let standard input be this."""

    def stdin(content):
        path = tmp_path / "stdin"
        path.write_bytes(content)
        stream = path.open("rb")
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        return stream

    return stdin


def test_a_payload_comes_as_an_argument_a_file_or_standard_input(q, run, tmp_path, stdin):
    payload = tmp_path / "payload.json"
    payload.write_text('{\n  "to": "bob"\n}\n')
    told = [run("enqueue", "mail", '{"to": "ada"}'), run("enqueue", "mail", "--file", str(payload))]
    for arguments in (("-",), ("--file", "-")):
        with stdin(b'{"to": "eve"}'):
            told.append(run("enqueue", "mail", *arguments))
    assert [one.code for one in told] == [0] * 4
    jobs = [q.find(one.out.strip()) for one in told]
    assert [job.json()["to"] for job in jobs] == ["ada", "bob", "eve", "eve"]
    # In the file it stays as short as can be, and readable.
    assert jobs[1].payload == b'{"to":"bob"}'


def test_without_a_payload_there_is_none_and_raw_is_taken_as_it_is(on_file, run, tmp_path):
    picture = tmp_path / "picture"
    picture.write_bytes(b"\x89PNG\r\n")
    nothing, raw, text = (
        on_file.find(run("enqueue", "mail", *arguments).out.strip())
        for arguments in ((), ("--raw", "--file", str(picture)), ("--raw", "hello"))
    )
    assert (nothing.payload, raw.payload, text.payload) == (b"", b"\x89PNG\r\n", b"hello")


def test_all_options_are_the_jobs(q, run):
    first = q.enqueue("first")
    told = run(
        *("enqueue", "mail", "1", "--priority", "-3", "--delay", "90m", "--key", "k", "--max-attempts", "7"),
        *("--timeout", "30s", "--expires-in", "7d", "--tenant", "t", "--limit-key", "l"),
        *("--after", first.id, "--json"),
    )
    assert told.json == {"enqueued": 1, "id": told.json["id"]}
    job = q.find(told.json["id"])
    assert (job.priority, job.key, job.max_attempts, job.timeout_s) == (-3, "k", 7, 30)
    assert (job.tenant, job.limit_key, job.after, job.status) == ("t", "l", (first.id,), "blocked")
    assert (job.run_at - job.created_at).total_seconds() == 5400
    assert (job.expires_at - job.created_at).days == 7
    # The same key again is the same job.
    assert run("enqueue", "mail", "--key", "k").out.strip() == job.id


def test_blanks_are_no_payload(q, run, stdin):
    with stdin(b"\n"):
        assert run("enqueue", "send", "-").code == 0
    [job] = q.dequeue("send")
    assert job.payload == b""


def test_each_line_is_a_job_and_all_are_one_commit(q, run, stdin):
    with stdin(b'{"n":1}\n\n{"n": 2}\n"three"'):
        told = run("enqueue", "mail", "--lines", "-", "--priority", "4")
    assert told == (0, "3 jobs enqueued\n", "")
    assert [job.json() for job in q.jobs()] == [{"n": 1}, {"n": 2}, "three"]
    assert {job.priority for job in q.jobs()} == {4}


def test_lines_of_a_file_may_be_any_text(on_file, run, tmp_path):
    (tmp_path / "names").write_text("ada\nbob\n")
    told = run("enqueue", "mail", "--lines", "--raw", "--file", str(tmp_path / "names"), "--json")
    assert told.json == {"enqueued": 2}
    assert [job.payload for job in on_file.jobs()] == [b"ada", b"bob"]


def test_lines_end_in_any_way_and_blank_ones_are_none(on_file, run, stdin):
    with stdin(b' {"n": 1} \r\n\r\n   \n{"n": 2}'):
        assert run("enqueue", "send", "--lines", "-").out == "2 jobs enqueued\n"
    assert [job.payload for job in on_file.jobs()] == [b'{"n":1}', b'{"n":2}']


def test_raw_lines_are_taken_as_they_are(on_file, run, stdin):
    with stdin(b"  a b \t\r\n\n\xff \n \n"):
        assert run("enqueue", "send", "--lines", "--raw", "-").out == "3 jobs enqueued\n"
    assert [job.payload for job in on_file.jobs()] == [b"  a b \t", b"\xff ", b" "]


def test_a_line_that_is_no_json_is_named_and_nothing_is_enqueued(q, run, stdin):
    with stdin(b"".join(b"%d\n" % number for number in range(5000)) + b"{oops\n"):
        told = run("enqueue", "mail", "--lines", "-")
    assert (told.code, told.out) == (2, "")
    assert "line 5001" in told.err
    assert "Nothing was enqueued" in told.err
    assert q.stats().enqueued_total == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("mail", "{oops"), "--raw"),
        (("mail", "[" * 20_000 + "]" * 20_000), "--raw"),
        (("mail", "1", "--file", "x"), "not both"),
        (("mail", "--file", "missing"), "cannot be read"),
        (("mail", "--lines"), "add --file FILE"),
        (("mail", "--lines", "-", "--wait", "5s"), "--wait is for one job"),
        (("mail", "--delay", "soon"), "--delay takes a number and a unit"),
        (("mail", "--max-attempts", "0"), "max_attempts"),
        (("mail", "--after", "never"), "never"),
        ((), "ENTRYPOINT"),
    ],
)
def test_what_makes_no_sense_is_a_sentence_and_nothing_is_enqueued(on_file, run, arguments, hint):
    told = run("enqueue", *arguments)
    assert (told.code, told.out) == (2, "")
    assert hint in told.err
    assert told.err.count("\n") == 1
    assert on_file.stats().enqueued_total == 0


@pytest.fixture
def worker(q):
    """Does what comes, as its payload says, until the test is over."""
    is_over = threading.Event()

    def work():
        while not is_over.is_set():
            for job in q.dequeue("mail", wait=0.2):
                if job.json() == "fail":
                    q.nack(job, error="no such mailbox")
                else:
                    q.ack(job, {"sent": job.json()})

    thread = threading.Thread(target=work)
    thread.start()
    yield
    is_over.set()
    thread.join()


def test_wait_prints_the_result(worker, run):
    assert run("enqueue", "mail", '"ada"', "--wait", "30s") == (0, '{"sent":"ada"}\n', "")
    told = run("enqueue", "mail", '"bob"', "--wait", "30s", "--json").json
    assert (told["enqueued"], told["result"]) == (1, {"sent": "bob"})


def test_wait_tells_of_a_job_that_failed(worker, run):
    told = run("enqueue", "mail", '"fail"', "--max-attempts", "1", "--wait", "30s")
    assert (told.code, told.out) == (1, "")
    assert "no such mailbox" in told.err


def test_wait_tells_that_nobody_was_in_time(on_file, run):
    told = run("enqueue", "nobody", "--wait", "1s", "--json")
    assert told.code == 1
    assert "not finished after 1 s" in told.err
    assert on_file.stats().queued == 1
    assert on_file.find(told.json["id"]).entrypoint == "nobody", "a program can go on with it"


def test_many_lines_come_through_a_real_pipe(on_file):
    lines = io.BytesIO(b"".join(b'{"n":%d}\n' % number for number in range(20_000)))
    done = subprocess.run(
        [sys.executable, "-m", "bucketq", "enqueue", "mail", "--lines", "-"],
        input=lines.getvalue(),
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"20000 jobs enqueued\n", b"")
    assert on_file.stats().queued == 20_000
