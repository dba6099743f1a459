"""The comparison with other queues counts what is lost and doubled; the peers are not needed here."""

from pathlib import Path

import pytest

from bench.peers.plots import Bar, draw_bars
from bench.peers.process import Process
from bench.peers.report import replace_part
from bench.peers.servers import Brokers, Server
from bench.peers.tape import Event, Tape
from bench.peers.toll import count_toll, unfinished


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
