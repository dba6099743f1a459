"""`bucketq work --processes`: what the workers that a supervisor starts are told."""

import pytest

import bucketq.cli.supervisor
import bucketq.cli.work
from bucketq.cli.__main__ import main


class Started:
    """Supervisors and workers that would have been started, in the place of both."""

    def __init__(self):
        self.commands = []
        self.workers = []

    def supervisor(self, command, count, environment, watched):
        self.commands += [command(number) for number in range(count)]
        return self

    async def run(self):
        return 0

    async def work_here(self, path, working, where, settings, logs, url, is_supervised):
        self.workers += [(working, settings, url)]
        return 0


@pytest.fixture
def started(monkeypatch, tmp_path):
    started = Started()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bucketq.cli.supervisor, "Supervisor", started.supervisor)
    monkeypatch.setattr(bucketq.cli.work, "_work_here", started.work_here)
    return started


def run_workers(started):
    """Run the commands of a supervisor, as its processes would."""
    for _python, _m, _bucketq, *arguments in tuple(started.commands):
        assert main(arguments) == 0


@pytest.mark.parametrize("table", ["processes = 2", "reload = true"])
def test_the_workers_of_a_supervisor_do_not_supervise_in_turn(started, tmp_path, table):
    (tmp_path / "bucketq.toml").write_text(f"[work]\n{table}\n")
    assert main(["work", "jobs:app"]) == 0
    supervised = len(started.commands)
    assert supervised
    run_workers(started)
    assert (len(started.commands), len(started.workers)) == (supervised, supervised)


def test_the_variables_of_a_supervisor_do_not_make_supervisors_of_its_workers(started, monkeypatch):
    monkeypatch.setenv("BUCKETQ_PROCESSES", "3")
    assert main(["work", "jobs:app"]) == 0
    run_workers(started)
    assert (len(started.commands), len(started.workers)) == (3, 3)


def test_workers_get_what_their_supervisor_was_told(started, monkeypatch, tmp_path):
    monkeypatch.setenv("BUCKETQ_STALE_AFTER_S", "60")
    monkeypatch.setenv("BUCKETQ_SOLE_WRITER", "yes")
    # This one is not asked.
    (tmp_path / "bucketq.toml").write_text('url = "memory://other"\n[work]\nconcurrency = 1\n')
    (tmp_path / "mine.toml").write_text("[work]\nconcurrency = 7\nprocesses = 2\n[queue]\narchive = false\n")
    flags = ["--stale-after-s", "300", "--health-port", "9000"]
    assert main(["--config", "mine.toml", "work", "jobs:app", *flags]) == 0
    run_workers(started)
    for number, (working, settings, url) in enumerate(started.workers):
        assert (working.concurrency, working.health_port, url) == (7, 9000 + number, "")
        assert (settings.stale_after_s, settings.sole_writer, settings.archive) == (300, True, False)
    assert len(started.workers) == 2
