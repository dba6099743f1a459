"""What is told about the command line, in its reference and by the shell, is what it takes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bucketq.cli.reference import reference

REFERENCE = Path(__file__).parents[2] / "docs/reference/cli.md"


def test_the_reference_says_what_the_command_line_takes():
    assert REFERENCE.read_text() == reference(), "run `make reference`"


def test_the_reference_is_the_same_whoever_makes_it(tmp_path):
    environment = os.environ | {"COLUMNS": "60", "BUCKETQ_GRPC_PORT": "1", "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "bucketq.cli.reference"]
    made = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, check=True)
    assert made.stdout == REFERENCE.read_bytes()


@pytest.fixture
def complete(tmp_path):
    """Ask a real bash what could follow the words of a command line."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    script = tmp_path / "bin/bucketq"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bucketq "$@"\n')
    script.chmod(0o755)
    environment = os.environ | {"PATH": f"{script.parent}:{os.environ['PATH']}"}

    def complete(*words):
        asked = [
            'eval "$(_BUCKETQ_COMPLETE=source_bash bucketq)"',
            'COMP_WORDS=("$@")',
            "COMP_CWORD=$(($# - 1))",
            "$(complete -p bucketq | sed 's/.*-F \\([^ ]*\\).*/\\1/') bucketq",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
        done = subprocess.run(
            [bash, "--norc", "-c", "\n".join(asked), "bash", "bucketq", *words],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return set(done.stdout.split())

    return complete


def test_bash_completes_commands(complete):
    assert complete("re") == {"retry", "redrive", "resume", "replay"}
    assert complete("schedules", "") >= {"add", "remove"}


def test_bash_completes_options(complete):
    assert complete("redrive", "--e") == {"--entrypoint", "--error"}
    assert "--grpc-port" in complete("serve", "--grpc")
