"""The benchmark runs, and what it counts is exact.

Its speeds are not looked at: a test that depends on how busy the machine is would fail for no reason of ours.
Parts that only time something run in `make bench` alone; those of Spark in tests/spark/test_bench.py.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.bill import read_page

ROOT = Path(__file__).resolve().parents[2]

WORKLOADS = [
    "enqueue, 1 caller",
    "enqueue, 10 callers",
    "enqueue, 50 callers",
    "dequeue+ack, 1 caller",
    "mixed, 50 callers",
]

Run = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("bench")
    figures = folder / "figures.json"
    parts = ("requests", "cost", "bound", "floor", "deep", "life", "memory")
    done = _bench("--quick", "--only", *parts, "--json", str(figures), "--folder", str(folder))
    return done.stdout, json.loads(figures.read_text())


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


def test_every_workload_is_reported(quick_run: Run) -> None:
    printed, figures = quick_run
    assert [figure["aim"]["workload"]["name"] for figure in figures["memory"]] == WORKLOADS
    assert all(figure["bucketq_per_s"] > 0 for figure in figures["memory"])
    assert all(name in printed for name in WORKLOADS)
    assert all(took_s > 0 for took_s in figures["floor_s_by_bytes"].values())


def test_the_bound_is_reported(quick_run: Run) -> None:
    _, figures = quick_run
    assert [one["callers"] for one in figures["bound"]] == [10, 100, 1000]
    assert all(one["share"] > 0 for one in figures["bound"])


def test_the_life_of_a_job_is_measured(quick_run: Run) -> None:
    _, figures = quick_run
    names = [one["name"] for one in figures["life"]]
    assert len(names) == 7
    assert {name.split(": ")[0].split(" ")[-1] for name in names[:6]} == {"scheduled", "keys", "limits"}
    assert all(one["shallow"] > 0 and one["deep"] > 0 for one in figures["life"])


def test_deep_backlogs_are_reported(quick_run: Run) -> None:
    printed, figures = quick_run
    names = [one["name"] for one in figures["deep"]]
    assert len(names) == 8
    assert all(name.split(",")[0][:30] in printed for name in names)
    found = {one["name"]: one for one in figures["deep"]}
    # Counted, not timed, so they hold on any machine.
    for name in ("bytes a commit", "objects read until the first job"):
        assert found[name]["is_met"]


def test_the_page_about_cost_says_what_is_counted(quick_run: Run) -> None:
    _, figures = quick_run
    assert figures["cost"].keys() == {"requests", "waits", "months", "loads", "break-even"}
    for name, rows in figures["cost"].items():
        told = read_page(name).splitlines()
        assert [row for row in rows if f"| {' | '.join(row)} |" not in told] == [], f"make bench: {name}"


def test_a_commit_is_one_request_and_none_is_made_in_vain(quick_run: Run) -> None:
    _, figures = quick_run
    found = {one["name"]: (one["commits"], *one["found"].values()) for one in figures["requests"]}
    assert found == {
        # commits, writes, reads, conditional reads
        "enqueue, 10 callers": (5, 5, 0, 0),
        "dequeue+ack, 1 caller": (100, 100, 0, 0),
        "mixed, 10 callers": (10, 10, 0, 0),
        "dequeue, empty queue, sole writer": (0, 0, 0, 0),
        "dequeue, empty queue": (0, 0, 0, 1),
    }


def test_a_profile_names_the_functions(tmp_path: Path) -> None:
    done = _bench("--profile", "memory/enqueue-50", "--folder", str(tmp_path))
    assert "commit.py" in done.stdout
