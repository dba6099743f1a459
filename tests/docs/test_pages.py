"""Every page: its code runs, its commands and files are understood; and no page is left out."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from bucketq.cli.app import app
from tests.docs.blocks import ROOT, blocks, prose, run
from tests.docs.commands import commands_in, understood

# Pages whose code runs in surroundings of its own, and the test that makes them. All others run here.
ELSEWHERE = {
    "README.md": "tests/acceptance/test_readme.py",
    "docs/archive.md": "tests/docs/test_guides.py",
    "docs/backlog.md": "tests/docs/test_guides.py",
    "docs/brokers.md": "tests/docs/test_guides.py",
    "docs/data-engineers.md": "tests/spark/test_data_engineers.py",
    "docs/deploy.md": "tests/deploy/test_guides.py",
    "docs/howto/spark-cluster.md": "tests/spark/test_guide.py",
    "docs/observability.md": "tests/app/test_observability_guide.py",
    "docs/pipeline.md": "tests/spark/test_guide.py",
    "docs/queue.md": "tests/docs/test_guides.py",
    "docs/rest.md": "tests/acceptance/test_rest_guide.py",
    "docs/security.md": "tests/acceptance/test_token_command.py",
    "docs/spark.md": "tests/spark/test_guide.py",
    "docs/storage.md": "tests/docs/test_guides.py",
    "docs/testing.md": "tests/app/test_guide.py",
    "docs/websocket.md": "tests/rest/test_websocket_guide.py",
    "docs/worker.md": "tests/app/test_worker_guide.py",
}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"))
)
# What a block has started ends with it, also where one of its commands fails: else that would not be told.
END_OTHERS = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"
# Those that say what is shown, and need no more than to be read.
SHOWN = {"text", "js", "sql", "dockerfile"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, where a page's code runs; modules that it writes there can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_the_code_of_a_page_runs(page, folder):
    names = {}
    with asyncio.Runner() as runner:
        for block in blocks(page):
            if block.file:
                with (folder / block.file).open("a") as file:
                    file.write(block.within(folder).text)
            if block.language == "python":
                run(block, folder, names, runner)
            if block.language == "bash":
                run_shell(block.within(folder), folder)


def run_shell(block, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", f"{END_OTHERS}\n{block.text}"],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_can_be_read(page):
    for block in blocks(page):
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "console":
                assert block.text.startswith("$ "), f"{block}: `$ ` stands before what is typed"
            case language:
                assert language in SHOWN | {"python", "bash"}, f"{block}: what is {language!r}?"


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_understood(page):
    consoles = (block.text for block in blocks(page, "console"))
    typed = [
        *(block.text for block in blocks(page, "bash")),
        *(line for text in consoles for line in re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE)),
        *re.findall(r"^ {4,}(bucketq (?:.*\\\n)*.*)$", prose(page), re.MULTILINE),
    ]
    for text in typed:
        for arguments in commands_in(text):
            understood(arguments)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_that_a_page_speaks_of_are_there(page):
    known = get_command(app).commands
    assert [name for name in re.findall(r"`bucketq ([a-z]+)[^`]*`", prose(page)) if name not in known] == []


def test_pages_that_run_elsewhere_do():
    for page, test in ELSEWHERE.items():
        assert page in PAGES
        assert Path(page).name in (ROOT / test).read_text(), page
