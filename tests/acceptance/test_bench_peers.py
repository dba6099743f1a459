"""The comparison with other queues runs, and it catches one that loses jobs and doubles them.

The peers and their servers are not needed here. Speeds are not looked at.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.peers.plots import Bar, draw_bars
from bench.peers.process import Process
from bench.peers.report import replace_part
from bench.peers.servers import Brokers, Server
from bench.peers.tape import Event, Tape
from bench.peers.toll import count_toll, unfinished

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("peers")
    out = folder / "peers.json"
    command = [sys.executable, "-m", "bench.peers", "--quick", "--only", "forgetful"]
    command += ["--out", str(out), "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == [out.name]
    told: dict[str, Any] = json.loads(out.read_text())
    assert told["failures"] == {}
    return told


def test_a_queue_that_loses_and_doubles_is_caught(played: dict[str, Any]) -> None:
    # Its producer drops each tenth job, and its worker runs each seventh twice.
    assert all(figure > 0 for figure in played["speeds"]["forgetful"].values())
    killed = played["server_kills"]["forgetful"]
    jobs = range(killed["jobs"])
    assert killed["lost"] == sum(number % 10 == 9 for number in jobs)
    assert killed["doubled"] == sum(number % 7 == 0 and number % 10 != 9 for number in jobs)
    # It takes a job off the queue before it is done: a job in hand dies with its worker.
    toll = played["worker_kills"]["forgetful"]
    assert toll["interrupted"] == toll["kills"] == 2
    assert toll["recovered_s"] == []
    assert toll["lost"] == sum(number % 10 == 9 for number in range(toll["jobs"])) + toll["interrupted"]


class Stuck(Server):
    """A server that begins, and never gets ready."""

    def start(self) -> None:
        self.processes = [Process(["sleep", "99"], self.folder / "server.log")]
        raise RuntimeError("did not get there")


def test_a_storage_that_does_not_get_ready_is_not_left_running(tmp_path: Path) -> None:
    storage = Stuck(tmp_path / "storage")
    with pytest.raises(RuntimeError, match="did not get there"), Brokers(tmp_path, storage, standby=False):
        pass
    assert storage.pids == []
    assert not storage.folder.exists()


def test_a_toll_counts_what_was_lost_doubled_and_interrupted() -> None:
    events = [
        Event("begun", 1, 1.0),
        Event("ended", 1, 2.0),
        Event("begun", 2, 2.0),
        Event("begun", 3, 2.5),
        # The worker is killed at 3, and the next one at 5.
        Event("begun", 1, 4.0),
        Event("ended", 1, 4.5),
        Event("begun", 2, 4.8),
        Event("begun", 2, 9.0),
        Event("ended", 2, 10.0),
    ]
    toll = count_toll([1, 2, 3, 4], events, [3.0, 5.0])
    assert unfinished([1, 2, 3, 4], events) == {3, 4}
    assert (toll.kills, toll.jobs, toll.lost, toll.doubled) == (2, 4, 2, 1)
    # Jobs 2 and 3 by the first kill, and job 2 once more by the second.
    assert toll.interrupted == 3
    assert toll.recovered_s == [7.0, 5.0]


def test_a_tape_counts_its_lines_by_its_size(tmp_path: Path) -> None:
    tape, same = Tape(tmp_path / "tape"), Tape(tmp_path / "tape")
    tape.note("sent", 7)
    same.note("acked", 12_345_678)
    assert tape.count() == same.count() == 2
    assert [(event.what, event.number) for event in tape.events()] == [("sent", 7), ("acked", 12_345_678)]


def test_a_plot_shows_every_bar_and_the_docs_keep_what_is_around_the_tables() -> None:
    picture = draw_bars("Jobs", [Bar("a & b", 12_345.6, True), Bar("c", 0.5, False)])
    assert "a &amp; b" in picture
    assert "12,346" in picture
    text = "before\n<!-- speeds -->\nold\n<!-- /speeds -->\nafter\n"
    assert replace_part(text, "speeds", "new \\1") == (
        "before\n<!-- speeds -->\n\nnew \\1\n\n<!-- /speeds -->\nafter\n"
    )
