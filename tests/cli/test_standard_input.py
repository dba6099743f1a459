"""Commands that read standard input, and what they do where there is none, or no end of it; or no output."""

import signal
import subprocess
import sys

import pytest

COMMANDS = ["enqueue send -", "enqueue send --lines -", "import -"]
# Says so when it begins to read.
READING = """
import sys
from bucketq.cli.__main__ import main

class Telling:
    def __getattr__(self, name):
        print("reading", flush=True)
        return getattr(sys.__stdin__, name)

sys.stdin = Telling()
sys.exit(main())
"""


@pytest.fixture
def url(tmp_path):
    return (tmp_path / "queue.json").as_uri()


@pytest.mark.parametrize("command", COMMANDS)
def test_one_that_is_closed_is_told(url, command):
    line = f"{sys.executable} -m bucketq {command} --url {url} <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bucketq: standard input is closed")


def test_where_output_is_closed_the_work_is_done(url):
    for command in ("enqueue send 1", "stats"):
        line = f"{sys.executable} -m bucketq {command} --url {url} >&-"
        done = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_one_ctrl_c_ends_the_waiting_for_it(url, command):
    line = [sys.executable, "-c", READING, *command.split(), "--url", url]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reading:
        reading.stdout.readline()
        reading.send_signal(signal.SIGINT)
        assert reading.wait(30) == 130
