"""`bucketq work --processes`: what the workers that a supervisor starts are told."""

import pytest

import bucketq.cli.supervisor
import bucketq.cli.work
from bucketq.cli.__main__ import main
from bucketq.errors import ConfigurationError


class Started:
    """Supervisors and workers that would have been started, in the place of both."""

    def __init__(self):
        self.commands = []
        self.workers = []

    def supervisor(self, command, count, environment, watched, kill_after_s):
        self.commands += [command(number) for number in range(count)]
        return self

    async def run(self):
        return 0

    async def work_here(self, path, working, where, settings, logs, traces, url, is_supervised):
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
        assert settings == {"stale_after_s": 300, "sole_writer": True, "archive": False}
    assert len(started.workers) == 2


def test_a_flag_wins_over_the_app_even_with_the_default(monkeypatch, tmp_path):
    (tmp_path / "own.py").write_text(
        "from bucketq import App, Settings\n"
        "app = App('memory://', settings=Settings(stale_after_s=60, hot_jobs_max=7))\n"
    )
    seen = []

    def no_worker(app, *others):
        seen.append(app.settings)
        raise ConfigurationError("seen enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bucketq.cli.work, "_worker_of", no_worker)
    assert main(["work", "own:app", "--stale-after-s", "300"]) == 2
    assert (seen[0].stale_after_s, seen[0].hot_jobs_max) == (300, 7)
