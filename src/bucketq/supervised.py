"""Supervised: a process that ends when the one that has started it is gone, however that went.

Its standard input is a pipe from there. Nothing is ever written to it: it ends when its writer does.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger("bucketq")


def end_with_supervisor(stop: Callable[[], object], within_s: float) -> None:
    """From now on, call `stop`, in a thread, when the supervisor is gone; if need be exit, so much later."""
    threading.Thread(target=_watch, args=(stop, within_s), daemon=True).start()


def exit_after(within_s: float, code: int, message: str = "") -> None:
    """End the process so many seconds from now, whatever still runs in it."""

    def leave() -> None:
        if message:
            log.error(message)
        os._exit(code)

    timer = threading.Timer(within_s, leave)
    timer.daemon = True
    timer.start()


def _watch(stop: Callable[[], object], within_s: float) -> None:
    while os.read(0, 1024):
        pass
    with suppress(RuntimeError):  # it is over already
        stop()
    time.sleep(within_s)
    os._exit(1)
