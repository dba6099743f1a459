"""`bucketq top` as a user starts it: on a terminal, in a pipe, without what it needs."""

import os
import pty
import subprocess
import sys

import pytest

from bucketq import sync

COMMAND = [sys.executable, "-m", "bucketq", "top"]


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/queue.json"


def read_until(terminal, text):
    """What a program writes to the terminal, up to a text."""
    written = b""
    while text not in written:
        written += os.read(terminal, 65536)
    return written


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_it_takes_the_terminal_and_gives_it_back(url, key):
    with sync.connect(url) as queue:
        queue.enqueue_many("resize", range(12_345))
    terminal, other = pty.openpty()
    environment = {**os.environ, "BUCKETQ_URL": url, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(COMMAND, stdin=other, stdout=other, stderr=other, env=environment)
    os.close(other)
    try:
        read_until(terminal, b"12,345")
        os.write(terminal, key)
        # The last that it writes leaves the other screen.
        read_until(terminal, b"\x1b[?1049l")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_without_a_terminal_it_says_what_to_do(url):
    done = subprocess.run([*COMMAND, url], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert "top needs a terminal; `bucketq stats`" in done.stderr


def test_without_textual_it_says_what_to_install(url):
    code = (
        "import sys; sys.modules['textual'] = None; from bucketq.cli.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code, "top", url], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'bucketq[top]'" in done.stderr
