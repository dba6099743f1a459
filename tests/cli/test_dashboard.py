"""`bucketq dashboard` and `serve --dashboard` where the extra is not installed, and where they cannot be."""

import os
import subprocess
import sys

import pytest

from tests.cli.typed import typed


def run(tmp_path, *arguments):
    """Run the command where there is no NiceGUI."""
    (tmp_path / "nicegui.py").write_text("raise ModuleNotFoundError('no nicegui here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "bucketq", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60
    )


@pytest.mark.parametrize(
    "arguments", [("dashboard", "--port", "0"), ("serve", "--dashboard", "--http-port", "0")]
)
def test_without_the_extra_it_is_named(tmp_path, arguments):
    done = run(tmp_path, *arguments, "--url", f"file://{tmp_path}/queue.json")
    assert done.returncode == 2
    assert done.stderr.strip() == "bucketq: the dashboard takes an extra: pip install 'bucketq[dashboard]'"


def test_a_queue_of_one_process_has_no_dashboard_of_its_own(capsys):
    told = typed(capsys, "dashboard", "memory://", "--port", "0")
    assert told.code == 2
    assert "memory://" in told.err
