"""The demo, as people start it: in a pipe, on a terminal, interrupted, and where it cannot run."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from bucketq import DirectQueue, LocalFileSystemStorage, QueueState
from bucketq.archive import Archive
from bucketq.closed_pipe import PIPE_CLOSED
from bucketq.demo.cast import Cast
from bucketq.demo.process import Process, ProcessError
from bucketq.demo.summary import Summary
from bucketq.demo.tour import BURSTS, EMAILS, Tour
from bucketq.job import Outcome
from tests.spark.java import need_java
from tests.spark.jvm import environment as quick_java

DEMO = [sys.executable, "-m", "bucketq.demo"]
JOBS = BURSTS * (EMAILS + 1) + 1
# A minute where nobody else works, and half of it for Spark; the tests share their machine.
TIMEOUT_S = 300
GONE_WITHIN_S = 60
EARLIER = "earlier"

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


class Run(NamedTuple):
    """How a run of the demo ended, what it showed, and where its files are."""

    exit_code: int
    shown: str
    folder: Path
    # How many jobs were completed there before.
    before: int = 0

    @property
    def text(self) -> str:
        """What was shown, without what moves the cursor or colours the text."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown).replace("\r\n", "\n")

    def figures(self) -> dict[str, float]:
        """The figures of the summary."""
        summary = self.text[self.text.index("\nSummary\n") :]
        return {name: float(value) for name, value in re.findall(r"^  (\w+) +([\d.]+)\b", summary, re.M)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The whole demo in a pipe, with Spark, in a folder where it has been before."""
    folder = tmp_path_factory.mktemp("demo")
    asyncio.run(finish_one(folder / "queue.json"))
    return run_in_pipe(folder)


def test_where_there_is_no_java_the_reason_is_told(tmp_path: Path) -> None:
    code = (
        "import sys, bucketq.demo.report as report; from bucketq.spark import session;"
        " session._java_homes = lambda: []; sys.exit(report.main(sys.argv[1]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.wait(TIMEOUT_S) == 2
        assert process.stdout
        assert process.stdout.read().startswith("Spark needs Java 17 or newer, and there is none")


def test_a_signal_while_nobody_leads_ends_everything(tmp_path: Path) -> None:
    with started(tmp_path) as demo:
        read_until(demo, "which leads, is KILLED")
        demo.send_signal(signal.SIGINT)
        assert_stopped(demo, tmp_path)
    assert read_state(tmp_path / "tour").is_conserved()


def test_a_terminal_gets_a_live_picture_and_ctrl_c_ends_everything(tmp_path: Path) -> None:
    run = interrupted_on_terminal(tmp_path)
    assert run.exit_code == 130
    assert "demo: stopped, and nothing is left running." in run.text
    assert alive(tmp_path) == []
    assert "\x1b[36m" in run.shown
    # The picture was drawn again and again, fits, and gave the cursor back.
    assert run.text.count("what it does") > 3
    assert run.shown.rindex("\x1b[?25h") > run.shown.rindex("\x1b[?25l")
    picture = run.text[run.text.index("process ") : run.text.index("demo: stopped")]
    # The terminal shows the key as well.
    assert max(map(len, picture.replace("^C", "").splitlines())) <= 80


def test_those_who_are_left_by_a_demo_that_was_killed_end_by_themselves(tmp_path: Path) -> None:
    with started(tmp_path) as demo:
        read_until(demo, "leads")
        demo.kill()
        demo.wait(TIMEOUT_S)
        until_s = time.monotonic() + GONE_WITHIN_S
        while alive(tmp_path):
            assert time.monotonic() < until_s, alive(tmp_path)
            time.sleep(0.1)


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    with started(tmp_path) as demo:
        assert demo.stdout
        assert demo.stderr
        assert demo.stdout.readline().startswith("A tour of bucketq, in ")
        demo.stdout.close()
        assert demo.stderr.read() == ""
        assert demo.wait(TIMEOUT_S) == PIPE_CLOSED
        assert alive(tmp_path) == []


def test_a_queue_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    asyncio.run(DirectQueue(LocalFileSystemStorage(path)).enqueue("precious", b"data"))
    content = path.read_bytes()
    done = subprocess.run([*DEMO, "--folder", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"demo: {path} holds 1 unfinished jobs")
    assert path.read_bytes() == content


async def test_a_process_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    process = Process("broker 1", tmp_path / "log", "bucketq", "serve", "http://127.0.0.1:1")
    with pytest.raises(ProcessError, match=r"^broker 1 ended with exit code 2: bucketq: a broker serves"):
        await process.wait_for("serving")
    await process.stop()


async def test_a_process_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketq.demo.process._END_WITHIN_S", 0.1)
    (tmp_path / "deaf.py").write_text(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " print('up', flush=True); time.sleep(99)"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    process = Process("deaf", tmp_path / "log", "deaf")
    await process.wait_for("up")
    await process.stop()
    assert process.exit_code == -signal.SIGKILL


async def test_a_report_that_does_not_come_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketq.demo.tour._REPORT_WITHIN_S", 0.1)
    (tmp_path / "endless.py").write_text("import time; time.sleep(99)")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    tour = Tour(tmp_path, Cast(tmp_path))
    reporting = Process("report", tmp_path / "report.log", "endless")
    await tour._wait_for_report(reporting)
    assert reporting.exit_code is not None
    summary = await Summary.of(tour)
    assert f"the report went wrong: it was not there within 0.1 s; see {reporting.log}" in summary.troubles()
    assert f"report         none: {tour.no_report}" in summary.places()


async def test_what_is_not_accounted_for_is_told(tmp_path: Path) -> None:
    tour = Tour(tmp_path, Cast(tmp_path))
    await DirectQueue(tour.storage).enqueue("email", {"number": 0})
    tour.enqueued = 2
    summary = await Summary.of(tour)
    assert re.search(r"^  conserved +NO ", summary.text(), re.M)
    told = "\n".join(summary.troubles())
    assert f"2 jobs were acknowledged, and {tour.path} counts otherwise" in told
    assert "1 jobs are left" in told
    assert "bucketq verify has found something" in told


def test_it_ends_well_and_leaves_nothing_running(run: Run) -> None:
    assert run.exit_code == 0, run.text
    assert run.text.rstrip().endswith("All processes have ended.")
    assert alive(run.folder) + alive(run.folder.parent) == []


def test_the_summary_is_what_the_file_and_the_archive_say(run: Run) -> None:
    figures, state, outcomes = run.figures(), read_state(run.folder), archived_outcomes(run.folder)
    assert state.is_conserved()
    assert figures["enqueued"] == JOBS == state.stats.enqueued_total - run.before
    assert figures["completed"] == state.stats.completed_total - run.before
    assert figures["dead"] == state.stats.dead_total == len(state.dead_jobs()) == 1
    assert figures["left"] == state.stats.queued + state.stats.in_progress == 0
    assert outcomes[Outcome.COMPLETED] == figures["completed"]
    assert outcomes[Outcome.FAILED] - figures["dead"] == figures["retried"] > 2
    assert outcomes[Outcome.STALE] == figures["recovered"] > 0
    assert re.search(r"^  conserved +yes ", run.text, re.M)


def test_callers_share_writes(run: Run) -> None:
    [(changes, shared)] = re.findall(r"for (\d+) enqueues, claims and endings: ([\d.]+) a write", run.text)
    figures, outcomes = run.figures(), archived_outcomes(run.folder)
    assert int(changes) == figures["enqueued"] + 2 * outcomes.total()
    assert float(shared) == pytest.approx(int(changes) / figures["commits"], abs=0.06)
    assert float(shared) > 1


def test_verify_says_the_same(run: Run) -> None:
    assert re.search(r"^  verified +yes ", run.text, re.M)
    url = (run.folder / "queue.json").as_uri()
    told = subprocess.run([sys.executable, "-m", "bucketq", "verify", url], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
    assert f" {JOBS + run.before} archived jobs" in told.stdout


def test_the_leader_was_killed_and_the_other_broker_led(run: Run) -> None:
    [fallen] = set(re.findall(r"(broker \d), which leads, is KILLED", run.text))
    heir = "broker 1" if fallen == "broker 2" else "broker 2"
    assert run.figures()["failover"] > 0
    assert read_state(run.folder).epoch >= 2
    assert "leading, at" in log_of(run, fallen)
    assert "stopp" not in log_of(run, fallen)
    assert "leading, at" in log_of(run, heir)
    assert log_of(run, heir).rstrip().endswith("stopped")


def test_the_tour_is_told(run: Run) -> None:
    text = run.text
    assert "\x1b" not in run.shown
    for scene in (
        r"two brokers and three workers are up, and (broker \d) leads",
        r"see it in a browser: http://127.0.0.1:\d+/dashboard",
        r"email \d+ failed: ConnectionError: the mail server is busy",
        r"report 1 failed: LookupError: no such customer; it is dead after 3 attempts",
        r"(broker \d), which leads, is KILLED",
        r"(broker \d) leads, after [\d.]+ s; everybody goes on",
        r"(worker \d) is KILLED",
        r"report \d+ is taken over from worker \d, which is silent",
        r"the workers have left",
        r"every finished job is in the archive",
        r"bucketq verify: .*, sound",
    ):
        assert re.search(scene, text), scene


def test_what_can_be_looked_at_and_tried_is_there(run: Run) -> None:
    places, _, commands = run.text.partition("To look at, in ")[2].partition("\nTo try next\n")
    assert places.startswith(f"{run.folder}\n")
    for name in ("queue.json", "queue/archive", "logs"):
        assert f"\n  {name} " in places
        assert (run.folder / name).exists()
    url, *tried = re.findall(r"^  (?:export BUCKETQ_URL=|\S+bucketq )(.+)$", commands, re.M)
    *looked, shown = tried
    assert looked == ["jobs --status dead", "archive --summary", "top"]
    # With the report, if Spark has made one.
    report = run.folder / "report.html"
    assert shown == ("dashboard" + (f" --report {report}" if report.exists() else ""))
    command = [sys.executable, "-m", "bucketq", *tried[0].split()]
    told = subprocess.run(command, env=os.environ | {"BUCKETQ_URL": url}, capture_output=True, text=True)
    assert "no such customer" in told.stdout


def test_spark_makes_a_report_of_it(run: Run) -> None:
    need_java()
    page = run.folder / "report.html"
    assert f"  report         {page.as_uri()}\n" in run.text
    assert f"{JOBS + 1} jobs were finished; 1 of them failed for good" in page.read_text()


def started(folder: Path) -> "subprocess.Popen[str]":
    """The demo in a pipe, under way."""
    command = [*DEMO, "--no-report", "--folder", str(folder / "tour")]
    return subprocess.Popen(
        command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_until(demo: "subprocess.Popen[str]", text: str) -> None:
    assert demo.stdout
    for line in demo.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")


def run_in_pipe(folder: Path) -> Run:
    """Run the demo with its output in a pipe; it must have nothing to complain about."""
    # What is configured where one happens to be is not for the tour.
    (folder / "bucketq.toml").write_text("nonsense")
    done = subprocess.run(
        [*DEMO, "--folder", str(folder)],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.stderr == ""
    return Run(done.returncode, done.stdout, folder, before=1)


# Ctrl-C goes to those whose terminal it is.
WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def interrupted_on_terminal(folder: Path) -> Run:
    """Run the demo on a terminal of 80 by 24, without the report; press Ctrl-C when the leader is killed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_TERMINAL, *DEMO[1:], "--no-report"],
        env=environment(folder),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, is_pressed = b"", False
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
            if not is_pressed and b"is KILLED" in shown:
                os.write(ours, b"\x03")
                is_pressed = True
    except OSError:
        pass  # Linux says EIO when the last writer has gone.
    finally:
        os.close(ours)
        exit_code = process.wait(TIMEOUT_S)
    return Run(exit_code, shown.decode(), folder)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a plain terminal; its temporary files are in a folder, by which `alive` knows it."""
    wished = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"}
    plain = {name: value for name, value in os.environ.items() if name not in wished}
    return plain | quick_java() | {"TERM": "xterm-256color", "TMPDIR": str(folder)}


def alive(folder: Path) -> list[str]:
    """The processes that have this environment, whoever their parents are now."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("which processes run is looked up in /proc, and there is none here")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone, or somebody else's
            if f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def assert_stopped(demo: "subprocess.Popen[str]", folder: Path) -> None:
    rest, complaints = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 130, complaints
    assert "demo: stopped, and nothing is left running." in rest
    assert complaints == ""
    assert alive(folder) == []


async def finish_one(path: Path) -> None:
    """A job of an earlier visit."""
    queue = DirectQueue(LocalFileSystemStorage(path))
    await queue.enqueue(EARLIER)
    await queue.ack_many(await queue.dequeue(EARLIER))


def read_state(folder: Path) -> QueueState:
    """Read the queue as anybody could."""
    return asyncio.run(DirectQueue(LocalFileSystemStorage(folder / "queue.json")).read_state())


def archived_outcomes(folder: Path) -> Counter[Outcome]:
    """How the attempts at the jobs of the tour ended, in the archive."""
    jobs = Archive(LocalFileSystemStorage(folder / "queue.json")).jobs_sync()
    return Counter(attempt.outcome for job in jobs if job.entrypoint != EARLIER for attempt in job.attempts)


def log_of(run: Run, name: str) -> str:
    return (run.folder / "logs" / f"{name.replace(' ', '-')}.log").read_text()
