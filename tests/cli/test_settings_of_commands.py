"""Settings from the environment and from bucketq.toml, for commands that have no flags for them."""

import pytest

from bucketq.cli.__main__ import main
from bucketq.queue import Queue
from bucketq.url import connect


@pytest.fixture
def url(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "queue.json").as_uri()


@pytest.fixture
def opened(monkeypatch, url):
    """The settings of the queues that commands have opened."""
    seen = []

    def open_queue(url, *, settings) -> Queue:
        seen.append(settings)
        return connect(url, settings=settings)

    monkeypatch.setattr("bucketq.url.connect", open_queue)
    return seen


@pytest.mark.parametrize(("text", "is_on"), [("off", False), ("no", False), ("0", False), ("yes", True)])
def test_a_variable_means_the_same_to_every_command(opened, url, monkeypatch, text, is_on, capsys):
    monkeypatch.setenv("BUCKETQ_ARCHIVE", text)
    assert main(["enqueue", "send", "--url", url]) == 0
    assert opened[0].archive is is_on
    assert main(["config", "serve", "--json"]) == 0
    assert f'"queue.archive","value":{str(is_on).lower()}' in capsys.readouterr().out


def test_a_variable_that_is_empty_says_nothing(opened, url, monkeypatch, tmp_path):
    monkeypatch.setenv("BUCKETQ_STALE_AFTER_S", "")
    monkeypatch.setenv("BUCKETQ_ARCHIVE_KEEP_DAYS", "3")
    (tmp_path / "bucketq.toml").write_text("[queue]\nstale_after_s = 60\narchive_keep_days = 2\n")
    assert main(["enqueue", "send", "--url", url]) == 0
    assert (opened[0].stale_after_s, opened[0].archive_keep_days) == (60, 3)


def test_a_variable_that_is_wrong_is_named(url, monkeypatch, capsys):
    monkeypatch.setenv("BUCKETQ_HOT_JOBS_MAX", "10")
    monkeypatch.setenv("BUCKETQ_STALE_AFTER_S", "soon")
    assert main(["stats", url]) == 2
    told = capsys.readouterr().err
    assert told.startswith("bucketq: BUCKETQ_STALE_AFTER_S: ")
    assert "HOT_JOBS_MAX" not in told


def test_init_goes_by_the_url_that_is_set(url, monkeypatch, tmp_path):
    monkeypatch.setenv("BUCKETQ_URL", "memory://mine")
    assert main(["init"]) == 0
    assert 'url = "memory://mine"' in (tmp_path / "bucketq.toml").read_text()
    assert 'App("memory://mine")' in (tmp_path / "jobs.py").read_text()


def test_init_copes_with_the_name_of_any_folder(monkeypatch, tmp_path, capsys):
    folder = tmp_path / 'what? a "strange" #1'
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init"]) == 0
    assert main(["enqueue", "hello", '{"name": "Ada"}']) == 0
    assert (folder / "queue.json").exists()


def test_where_nothing_can_be_written_that_is_one_sentence(url, monkeypatch, capsys):
    def refuse(path, content):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("bucketq.cli.init._write", refuse)
    assert main(["init", "memory://"]) == 2
    assert "Permission denied" in capsys.readouterr().err
