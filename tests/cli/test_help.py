"""What `--help` says of every command, alike."""

import re

import pytest
import typer

from bucketq.cli.app import app
from tests.cli.typed import typed


def _paths(command, path=()):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from _paths(below, (*path, name))


ROOT = typer.main.get_command(app)
PATHS = [*_paths(ROOT)]


def _params(path):
    command = ROOT
    for name in path:
        command = command.commands[name]
    return [one for one in command.params if not one.hidden]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_all_that_is_said_is_sentences(path):
    said = {one.name: one.help for one in _params(path)}
    assert [name for name, text in said.items() if not re.fullmatch(r"[A-Z].*\.", text or "")] == []


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_says_what_it_is_for_in_80_columns(capsys, path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = typed(capsys, *path, "--help")
    assert told.code == 0
    usage, _, purpose = told.out.splitlines()[:3]
    assert usage.startswith(f"Usage: {' '.join(('bucketq', *path))} ")
    assert re.match("  [A-Z]", purpose)
    assert max(map(len, told.out.splitlines())) <= 80


def test_every_command_is_listed(capsys):
    listed = set(re.findall(r"^  ([a-z]+)  ", typed(capsys, "--help").out, re.MULTILINE))
    assert {path[0] for path in PATHS if path} == listed


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_values_have_names_that_people_know(capsys, path):
    told = typed(capsys, *path, "--help")
    assert not re.search(r"<(str|int|float|list|path|file)\b|\[\[|\{", _without_examples(told.out))


def _without_examples(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("    bucketq "))


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("retry", "Usage: bucketq retry [OPTIONS] ID..."),
        ("discard", "Usage: bucketq discard [OPTIONS] [ID]..."),
        ("pause", "Usage: bucketq pause [OPTIONS] [ENTRYPOINT]"),
        ("work", "Usage: bucketq work [OPTIONS] APP"),
    ],
)
def test_the_usage_tells_which_arguments_may_be_left_out(capsys, command, usage):
    assert typed(capsys, command, "--help").out.splitlines()[0] == usage


# Those that go on until they are stopped say what they do in logs or on a screen; the last prints nothing.
SILENT = {("serve",), ("work",), ("top",), ("dashboard",), ("token", "revoke")}


def test_whatever_prints_can_print_json():
    printing = [path for path in PATHS if path and (path == ("schedules",) or not _is_group(path))]
    without = {
        path for path in printing if "--json" not in {flag for one in _params(path) for flag in one.opts}
    }
    assert without == SILENT


def _is_group(path):
    return any(other[: len(path)] == path and other != path for other in PATHS)
