"""The two programs of docs/websocket.md work together: one in JavaScript submits, one in Python works."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.acceptance.served import served
from tests.docs.blocks import blocks


def block(language):
    [found] = blocks("docs/websocket.md", language)
    return found.text


def test_a_page_submits_what_a_program_in_python_does(tmp_path):
    if not shutil.which("node"):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("JavaScript needs node")
    with served(f"file://{tmp_path}/queue.json") as broker:
        broker.wait_for("leading")
        page, program = tmp_path / "page.mjs", tmp_path / "program.py"
        page.write_text(block("js").replace("localhost:8420", broker.http))
        program.write_text(block("python").replace("localhost:8420", broker.http))
        # Browsers have it by themselves, and so has node from 22 on.
        command = ["node", "--no-warnings", "--experimental-websocket", str(page)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as browser:
            try:
                worked = subprocess.run(
                    [sys.executable, str(program)], capture_output=True, text=True, timeout=60
                )
                assert worked.stdout == "{'image': 7}\n", worked.stderr
                told = ""
                for line in browser.stdout:
                    told += line
                    if "size: 64" in told:
                        break
            finally:
                browser.kill()
    assert "unclaimed: 1" in told
    assert "completed" in told
