"""docs/rest.md: every command runs, and answers what is shown; the table has every call."""

import json
import re
import subprocess

import pytest

from bucketq.broker.calls import CALLS
from bucketq.broker.openapi import openapi
from tests.acceptance.hosted import hosted
from tests.deploy.files import tool
from tests.docs.blocks import ROOT, blocks

GUIDE = (ROOT / "docs/rest.md").read_text()
# A command, over several lines while a quote is open, and what it prints.
COMMAND = re.compile(r"^(curl (?:[^'\n]|'[^']*')*)\n((?:#.*\n)?)", re.MULTILINE)


def commands(page):
    return [found for block in blocks(page, "bash") for found in COMMAND.findall(block.text)]


class Shell:
    """Runs commands at a broker, and remembers which job and which batch was the last."""

    def __init__(self, address):
        self._address = address
        self._variables = {}

    def run(self, command):
        command = command.replace("curl -s", "curl -s --fail-with-body")
        command = command.replace("localhost:8420", self._address.removeprefix("http://"))
        if '"token": "…"' in command:
            self.run("""curl -s localhost:8420/v1/jobs -d '{"type": "other", "priority": -1}'""")
            claimed = self.run("""curl -s localhost:8420/v1/jobs/claim -d '{"workerId": "w"}'""")
            for name in ("jobId", "token"):
                command = command.replace(f'"{name}": "…"', f'"{name}": "{json.loads(claimed)[name]}"')
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=self._variables, timeout=60
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        for variable, field in (("JOB", "jobId"), ("BATCH", "batchId")):
            if field in told:
                self._variables[variable] = told[field]
        return done.stdout


@pytest.fixture
def shell(tmp_path):
    tool("curl")
    with hosted(f"file://{tmp_path}/queue.json") as broker:
        yield Shell(f"http://{broker.http}")


def shown(comment):
    """What a comment shows, as a pattern."""
    return ".*".join(map(re.escape, comment.removeprefix("#").strip().split("…")))


@pytest.mark.parametrize("page", ["docs/rest.md", "docs/brokers.md"])
def test_every_command_runs_and_prints_what_is_shown(shell, page):
    found = commands(page)
    assert len(found) == (ROOT / page).read_text().count("curl -s")
    for command, comment in found:
        printed = shell.run(command)
        if comment.startswith("# {"):
            assert re.fullmatch(shown(comment), printed), command
        if comment.startswith("# 204"):
            assert printed == ""


def test_a_submission_with_a_key_is_answered_twice_the_same(shell):
    twice = [command for command, _ in commands("docs/rest.md") if "invoice-17" in command]
    assert len(twice) == 2
    first, second = map(shell.run, twice)
    assert first == second


def test_the_table_has_every_call():
    rows = re.findall(r"^\| `(\w+ /\S+)` \| (\w*) \| `?(\w*)`? \| (.*) \|$", GUIDE, re.MULTILINE)
    calls = [
        (f"{call.method} {call.path}", call.role.value, call.name, call.perform.__doc__)
        for call in CALLS.values()
    ]
    assert rows[: len(calls)] == calls
    described = {
        f"{method.upper()} {path}" for path, methods in openapi()["paths"].items() for method in methods
    }
    assert {route for route, *_ in rows} == described | {"GET /openapi.json"}
