"""A dashboard as a user runs it alone: `bucketq dashboard`, in a process of its own."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def shown(url, *options, **variables):
    """The address of the dashboard of a queue, while the block runs; it ends by SIGTERM."""
    command = [sys.executable, "-m", "bucketq", "dashboard", url, "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
    try:
        line = process.stdout.readline()
        assert " is at http" in line, line
        yield line.split(" is at ")[1].split(";")[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
