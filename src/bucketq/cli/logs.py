"""Logs of a process that serves: lines of text, or of JSON."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from bucketq.cli.options import Option
from bucketq.errors import ConfigurationError

LOG_OPTIONS: list[Option] = [
    ("--log-level", "info", "debug, info, warning or error"),
    ("--log-format", "text", "text or json"),
]
_FIELDS = ("epoch", "job", "entrypoint", "attempt", "seconds")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in _FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(level: str, form: str) -> None:
    """Send what bucketq logs to stderr. Raises ConfigurationError for a level or form that is none."""
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ConfigurationError(f"a log level is debug, info, warning or error, not {level!r}")
    if form not in ("text", "json"):
        raise ConfigurationError(f"a log format is text or json, not {form!r}")
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(_JsonLines() if form == "json" else text)
    for name, least in (("bucketq", level.upper()), ("uvicorn", "ERROR"), ("asyncio", "ERROR")):
        # Of the servers underneath only what they cannot cope with: what strangers send them is no news.
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(least)
