"""The log of a child: what its handlers write is written by the worker, like that of all others."""

import logging
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import QueueHandler
from queue import SimpleQueue

from bucketq.log_fields import LogFields

_PLAIN = (str, int, float, bool, type(None))


def worker_level() -> int:
    """What is worth a line to the worker, and so to its children."""
    return logging.getLogger().getEffectiveLevel()


def send_log(say: Callable[[object], None], level: int) -> None:
    """Have what is logged in this process said to the worker, unless the app has its own way to log."""
    root = logging.getLogger()
    if not root.handlers:
        sending = _Sending(say)
        sending.addFilter(LogFields())
        root.addHandler(sending)
        root.setLevel(level)


def write_down(record: logging.LogRecord) -> None:
    """Log what a child has said."""
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class _Sending(QueueHandler):
    def __init__(self, say: Callable[[object], None]) -> None:
        super().__init__(SimpleQueue())
        self._say = say

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # What a handler adds to a line may be nothing that can be made anew in another process.
        prepared = vars(super().prepare(record)).items()
        plain = {name: value if type(value) in _PLAIN else str(value) for name, value in prepared}
        return logging.makeLogRecord(plain)

    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the worker is gone
            self._say(record)
