"""What newcomers get wrong is told in one sentence, with the next step; --debug shows where it comes from."""

import sys

import pytest

from bucketq.cli.__main__ import main


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
        (["jobs", "--older-than", "0s"], "a time above 0"),
    ],
)
def test_what_newcomers_get_wrong(capsys, arguments, says):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("arguments", [["--debug", "stats", "nonsense"], ["stats", "nonsense", "--debug"]])
def test_debug_may_stand_anywhere(capsys, arguments):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.splitlines()[-1].startswith("bucketq: a storage URL begins with")
