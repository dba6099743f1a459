"""The scripts in examples/ run, and print what they say they do."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(script: str, *arguments: str, folder: Path) -> list[str]:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_example_is_tested() -> None:
    tested = {"web_and_worker.py", "long_job.py", "order_steps.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_web_and_worker(tmp_path: Path) -> None:
    assert run("web_and_worker.py", folder=tmp_path) == [
        "202 accepted",
        "202 accepted",
        "202 accepted",
        "resized cat.png",
        "resized dog.png",
        "gave up after 3 attempts: ValueError: notes.txt is not an image",
    ]


def test_web_and_worker_in_two_processes(tmp_path: Path) -> None:
    assert run("web_and_worker.py", "web", folder=tmp_path) == ["202 accepted"] * 3
    assert run("web_and_worker.py", "worker", folder=tmp_path)[:2] == ["resized cat.png", "resized dog.png"]


def test_long_job(tmp_path: Path) -> None:
    assert run("long_job.py", folder=tmp_path) == [
        "steady worker: transcoded 20 chunks",
        "steady worker: done, attempt 1",
        "first worker: the job was taken away, stopped",
        "second worker: transcoded 3 chunks",
        "second worker: done, attempt 2",
        "completed 2 of 2",
    ]


def test_order_steps(tmp_path: Path) -> None:
    assert run("order_steps.py", folder=tmp_path) == [
        "charge order 1",
        "charge order 2",
        "pack order 1",
        "pack order 2",
        "ship order 1",
        "ship order 2",
        "charge order 3",
        "refused as a whole: the claim is lost, so nothing was enqueued",
        "charge order 3",
        "order 3 is in the queue 1 time(s), as 'pack'",
    ]
