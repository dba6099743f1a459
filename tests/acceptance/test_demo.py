"""The demo, as people start it: in a pipe, on a terminal, and where it cannot run."""

import asyncio
import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from bucketq import DirectQueue, LocalFileSystemStorage, QueueState
from bucketq.demo.__main__ import main
from bucketq.demo.story import Story

DEMO = [sys.executable, "-m", "bucketq.demo", "--no-report"]
# It ends within 20 s on a machine that is not busy; the tests may share theirs.
TIMEOUT_S = 60


class Run(NamedTuple):
    """How a run of the demo ended, what it showed, and the queue that it left."""

    exit_code: int
    shown: str
    queue: Path

    def text(self) -> str:
        """What was shown, without what moves the cursor or colours the text."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown).replace("\r\n", "\n")

    def figures(self) -> dict[str, int]:
        """The figures of the summary."""
        summary = self.text()[self.text().index("\nSummary\n") :]
        return {name: int(value) for name, value in re.findall(r"^  (\w+) +(\d+)\b", summary, re.MULTILINE)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The demo in every surrounding, all at once: it sleeps most of the time."""
    surroundings = {
        "pipe": (run_in_pipe, {}),
        "terminal": (run_on_terminal, {}),
        "terminal, NO_COLOR": (run_on_terminal, {"NO_COLOR": "1"}),
        "dumb terminal": (run_on_terminal, {"TERM": "dumb"}),
    }
    with ThreadPoolExecutor(len(surroundings)) as pool:
        started = {
            name: pool.submit(run, DEMO, environment(tmp_path_factory.mktemp("demo"), changes))
            for name, (run, changes) in surroundings.items()
        }
        return {name: run.result() for name, run in started.items()}


SURROUNDINGS = ["pipe", "terminal", "terminal, NO_COLOR", "dumb terminal"]


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_it_ends_well_and_the_summary_adds_up(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    assert run.exit_code == 0, run.shown
    figures = run.figures()
    assert figures["enqueued"] == 303
    assert figures["enqueued"] == figures["completed"] + figures["dead"] + figures["left"]
    assert re.search(r"^  conserved +yes ", run.text(), re.MULTILINE)
    [(operations, shared)] = re.findall(r"for (\d+) operations: ([\d.]+) shared each write", run.text())
    assert float(shared) == pytest.approx(int(operations) / figures["commits"], abs=0.06)
    assert float(shared) > 1
    assert f"cat {run.queue}" in run.text()


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_file_says_what_the_summary_says(runs: dict[str, Run], name: str) -> None:
    figures, state = runs[name].figures(), read_state(runs[name].queue)
    assert state.is_conserved()
    assert state.stats.enqueued_total == figures["enqueued"]
    assert state.stats.completed_total == figures["completed"]
    assert state.stats.dead_total == len(state.dead_jobs()) == figures["dead"]
    assert state.stats.queued + state.stats.in_progress == figures["left"]
    assert state.version == figures["commits"]


def test_the_story_is_told(runs: dict[str, Run]) -> None:
    shown = runs["pipe"].shown
    assert "\x1b" not in shown
    for scene in ("failed and will be tried again", "is dead after 3 attempts", "crashed with", "late acks"):
        assert scene in shown


@pytest.mark.parametrize("name", ["terminal", "terminal, NO_COLOR"])
def test_a_terminal_gets_a_live_picture(runs: dict[str, Run], name: str) -> None:
    shown = runs[name].shown
    assert ("\x1b[36m" in shown) is (name == "terminal")
    # The picture was drawn again and again, fits, and gave the cursor back.
    assert shown.count("busy with") > 10
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    text = runs[name].text()
    picture = text[text.index("entrypoint") : text.index("Summary")]
    assert max(len(line) for line in picture.splitlines()) <= 80


def test_where_no_picture_can_be_drawn_lines_are_printed(runs: dict[str, Run]) -> None:
    shown = runs["dumb terminal"].shown
    assert "\x1b" not in shown
    assert "crashed with" in shown


def test_a_lost_job_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def lose_a_job(story: Story) -> None:
        await DirectQueue(LocalFileSystemStorage(story.path)).enqueue("email", {"name": "email 0"})
        story.tally.enqueued = 2
        story.over.set()

    monkeypatch.setattr(Story, "run", lose_a_job)
    monkeypatch.setattr(sys, "argv", ["demo", "--no-report", "--file", str(tmp_path / "queue.json")])
    assert main() == 1
    assert re.search(r"^  conserved +NO ", capsys.readouterr().out, re.MULTILINE)


def test_a_queue_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    queue = DirectQueue(LocalFileSystemStorage(path))
    asyncio.run(queue.enqueue("precious", b"data"))
    content = path.read_bytes()
    done = subprocess.run(
        [*DEMO, "--file", str(path)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"demo: {path} holds 1 unfinished jobs")
    assert path.read_bytes() == content


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        DEMO, env=environment(tmp_path, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout
        assert demo.stderr
        assert demo.stdout.readline().startswith("One producer and three workers share ")
        demo.stdout.close()
        assert demo.stderr.read() == ""
        assert demo.wait(TIMEOUT_S) == 1


def environment(folder: Path, changes: dict[str, str]) -> dict[str, str]:
    """The environment of a plain terminal of 80 columns, with its temporary files in a folder."""
    wished = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONPATH"}
    plain = {name: value for name, value in os.environ.items() if name not in wished}
    path = os.pathsep.join(filter(None, [changes.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]))
    window = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    return {**plain, **window, **changes, "PYTHONPATH": path, "TMPDIR": str(folder)}


def run_in_pipe(command: list[str], env: dict[str, str]) -> Run:
    """Run a command with its output in a pipe; it must have nothing to complain about."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stderr == ""
    return Run(done.returncode, done.stdout, only_queue(env))


def run_on_terminal(command: list[str], env: dict[str, str]) -> Run:
    """Run a command on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = []
    try:
        while chunk := os.read(ours, 65536):
            written.append(chunk)
    except OSError:
        pass  # Linux says EIO when the last writer has gone.
    finally:
        os.close(ours)
        exit_code = process.wait(TIMEOUT_S)
    return Run(exit_code, b"".join(written).decode(), only_queue(env))


def only_queue(env: dict[str, str]) -> Path:
    """The queue that the demo has put into its temporary folder."""
    [path] = Path(env["TMPDIR"]).glob("bucketq-demo-*/queue.json")
    return path


def read_state(path: Path) -> QueueState:
    """Read the queue as anybody could."""
    return asyncio.run(DirectQueue(LocalFileSystemStorage(path)).read_state())
