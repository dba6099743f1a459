"""obstore's threads, where they meet Python: at a fork, and at the end of the process.

obstore does its work in threads of its own. A forked child does not have them, and would
wait for them for ever. And a thread that has delivered the last answer may not yet be out
of Python when the process ends, which aborts the process after all its work was done.
"""

import atexit
import os
import sys
import threading
import time
from types import FrameType

from bucketq.errors import UnusableStorageError

_EXIT_WAIT_MAX_S = 1.0

_has_threads = False
_lost_threads = False


def enter_runtime() -> None:
    """Call before each request. Raises UnusableStorageError where it could never be answered."""
    global _has_threads
    if _lost_threads:
        raise UnusableStorageError(
            "this process was forked from one that had already used a cloud storage, and cannot use one; "
            "start it with multiprocessing's 'spawn' or 'forkserver'"
        )
    _has_threads = True


def leave_runtime() -> None:
    """Wait until no thread is still at delivering an answer to an event loop."""
    deadline_s = time.monotonic() + _EXIT_WAIT_MAX_S
    while any(map(_is_delivering, _other_threads())) and time.monotonic() < deadline_s:
        time.sleep(0.001)


def _other_threads() -> list[FrameType]:
    frames = sys._current_frames()
    return [frame for ident, frame in frames.items() if ident != threading.get_ident()]


def _is_delivering(frame: FrameType | None) -> bool:
    while frame and frame.f_code.co_name != "call_soon_threadsafe":
        frame = frame.f_back
    return frame is not None


def _after_fork() -> None:
    global _lost_threads
    _lost_threads = _has_threads


os.register_at_fork(after_in_child=_after_fork)
atexit.register(leave_runtime)
