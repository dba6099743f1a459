"""A closed pipe: whoever read along, such as `head`, has seen enough."""

import os
import sys

# As a shell tells of a program that was ended by SIGPIPE.
PIPE_CLOSED = 141


def leave_closed_pipe() -> int:
    """Keep Python from complaining once more while it leaves; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
