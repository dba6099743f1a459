"""What newcomers get wrong is told in one sentence, with the next step; --debug shows where it comes from."""

import os
import sys

import pytest
import typer

from bucketq.cli.__main__ import main
from bucketq.cli.app import app


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import (", "SyntaxError: invalid syntax (broken_app.py, line 1)"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("\nraise RuntimeError('no database')", "broken_app.py:2)"),
    ],
)
def test_an_app_that_cannot_be_imported(tmp_path, monkeypatch, capsys, source, says):
    (tmp_path / "broken_app.py").write_text(source)
    monkeypatch.setattr(sys, "path", sys.path[:])
    assert main(["work", "broken_app:app"]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "--debug" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stats", "queue.json"], "for a file say file:///"),
        (["stats", "nonsense"], "a broker's with grpc://, http:// or ws://\n"),
        (["serve", "grpc://localhost"], "give that of the storage"),
        (["enqueue", "mail", "1", "--url", "memory://"], "gone when this command ends"),
        (["stat"], "Did you mean 'stats'? See `bucketq --help`."),
        (["verfy"], "No such command 'verfy'"),
        (["verify", "--jsn"], "No such option: --jsn"),
        (["verify", "ftp://host/queue.json"], "no storage has the scheme 'ftp'"),
        (["verify", "mongo:x"], "bucketq: "),
        (["serve", "--grpc-port", "many"], "--grpc-port"),
        (["show"], "bucketq show --help"),
        (["stats", "memory://a", "--url", "memory://b"], "which queue"),
        (["stats"], "bucketq init"),
        (["jobs", "--older-than", "0s"], "a time above 0"),
        (["archive", "--since", "1h", "--until", "2h"], "--since 1h is not before --until 2h"),
    ],
)
def test_what_newcomers_get_wrong(capsys, arguments, says):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["pause", "{url}"],
        ["resume", "{url}"],
        ["limit", "{url}", "--max-running", "1"],
        ["enqueue", "{url}"],
        ["show", "{url}"],
        ["retry", "1", "{url}"],
        ["discard", "{url}"],
        ["cancel", "{url}"],
        ["schedules", "add", "{url}", "mail", "--every", "60s"],
        ["schedules", "add", "mail", "{url}", "--every", "60s"],
        ["schedules", "remove", "{url}"],
        ["export", "{url}"],
        ["import", "{url}"],
        ["work", "{url}"],
    ],
)
@pytest.mark.parametrize("url", ["s3://bucket/jobs.json", "grpcs://broker:7420"])
def test_a_url_where_something_else_is_expected_is_rejected(tmp_path, monkeypatch, capsys, arguments, url):
    monkeypatch.setenv("BUCKETQ_URL", f"file://{tmp_path}/queue.json")
    assert main([one.format(url=url) for one in arguments]) == 2
    out, err = capsys.readouterr()
    assert f"must not be a URL, got {url}" in err
    assert f"pass --url {url}" in err
    assert (out, os.listdir(tmp_path)) == ("", [])


def test_every_argument_that_is_no_url_rejects_one():
    """A new command cannot forget it."""
    takes_urls = {"URL", "BEFORE", "AFTER", "PAYLOAD"}
    # These never reach a queue.
    without_queue = {"token", "config"}
    root = typer.main.get_command(app)
    commands = dict(root.commands)
    for name in without_queue:
        del commands[name]
    found = set()
    while commands:
        name, command = commands.popitem()
        commands |= {f"{name} {below}": one for below, one in getattr(command, "commands", {}).items()}
        for one in command.params:
            if one.param_type_name == "argument" and one.metavar not in takes_urls:
                found.add(one.metavar)
                value = ["s3://bucket/jobs.json"] if one.nargs == -1 else "s3://bucket/jobs.json"
                with pytest.raises(typer.BadParameter, match="must not be a URL"):
                    one.process_value(typer.Context(command), value)
    assert found == {"ENTRYPOINT", "ID", "NAME", "FILE", "APP"}


def test_a_url_with_a_secret_is_not_repeated(capsys):
    assert main(["pause", "s3://key:secret@bucket/jobs.json"]) == 2
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["pause", ""],
        ["resume", ""],
        ["redrive", "--entrypoint", ""],
        ["discard", "--error", "", "--entrypoint", "mail"],
        ["pause", "--url", ""],
        ["jobs", ""],
        ["gc", ""],
        ["enqueue", "mail", "--delay", ""],
        ["enqueue", "mail", "--key", ""],
        ["jobs", "--text", ""],
        ["cancel", ""],
    ],
)
def test_an_empty_value_is_rejected_and_never_means_all(tmp_path, monkeypatch, capsys, arguments):
    # Such as that of an unset variable of a shell.
    monkeypatch.setenv("BUCKETQ_URL", f"file://{tmp_path}/queue.json")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert "must not be empty" in err
    assert (out, os.listdir(tmp_path)) == ("", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "backup.jsonl"],
        ["gc"],
        ["redrive", "--all"],
        ["discard", "--all"],
        ["schedules"],
        ["limit"],
        ["limit", "mail", "--remove"],
        ["resume"],
        ["pause"],
        ["show", "job"],
        ["cancel", "job"],
        ["retry", "job"],
    ],
)
def test_a_queue_that_is_not_there_is_not_taken_for_an_empty_one(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.setenv("BUCKETQ_URL", f"file://{tmp_path}/misspelt.json")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert f"there is no queue at file://{tmp_path}/misspelt.json" in err
    assert (out, os.listdir(tmp_path)) == ("", [])


@pytest.mark.parametrize("option", [["--url", "file:///elsewhere/queue.json"], ["--json"]])
def test_options_of_schedules_that_its_commands_would_not_see_are_rejected(
    tmp_path, monkeypatch, capsys, option
):
    monkeypatch.setenv("BUCKETQ_URL", f"file://{tmp_path}/queue.json")
    assert main(["schedules", *option, "add", "poll", "fetch", "--every", "60s"]) == 2
    assert f"pass {option[0]} after `schedules add`" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [("", "is a folder; name a file in it, such as {}/queue.json"), ("pipe", "pipe is not a regular file")],
)
@pytest.mark.parametrize("command", [["stats"], ["enqueue", "mail", "1"]])
def test_what_is_no_file_is_no_queue(tmp_path, capsys, command, path, says):
    os.mkfifo(tmp_path / "pipe")
    assert main([*command, "--url", f"file://{tmp_path / path}"]) == 2
    told = capsys.readouterr().err
    assert says.format(tmp_path) in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--debug", "stats", "nonsense"], ["stats", "nonsense", "--debug"]])
def test_debug_may_stand_anywhere(capsys, arguments):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.splitlines()[-1].startswith("bucketq: a storage URL begins with")


@pytest.mark.parametrize("command", ["config", "stats"])
def test_a_value_that_makes_no_sense_is_told_with_where_it_stands(tmp_path, monkeypatch, capsys, command):
    (tmp_path / "bucketq.toml").write_text("[queue]\nstale_after_s = -5\n")
    assert main([command]) == 2
    assert capsys.readouterr().err.startswith("bucketq: bucketq.toml, [queue] stale_after_s: ")
    (tmp_path / "bucketq.toml").unlink()
    monkeypatch.setenv("BUCKETQ_STALE_AFTER_S", "0")
    assert main([command]) == 2
    assert capsys.readouterr().err.startswith("bucketq: BUCKETQ_STALE_AFTER_S: ")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("bucketq jobs --status d", ["dead"]),
        ("bucketq archive --status c", ["completed", "cancelled"]),
        ("bucketq token new web --role w", ["worker"]),
        ("bucketq schedules add a b --missed l", ["last"]),
    ],
)
def test_values_are_completed(monkeypatch, capsys, typed, offered):
    monkeypatch.setenv("_BUCKETQ_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == offered
