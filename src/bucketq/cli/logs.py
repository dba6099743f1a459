"""Logs of a process that serves: lines of text, or of JSON."""

import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

_FIELDS = ("epoch", "job", "entrypoint", "attempt", "seconds")


@dataclass(frozen=True, kw_only=True)
class Logs:
    """What is logged, and how."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], "what is worth a line"] = "info"
    log_format: Annotated[Literal["text", "json"], "for people, or for programs"] = "text"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import msgspec

        line = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in _FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(logs: Logs) -> None:
    """Send what bucketq logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(_JsonLines() if logs.log_format == "json" else text)
    for name, least in (("bucketq", logs.log_level.upper()), ("uvicorn", "ERROR"), ("asyncio", "ERROR")):
        # Of the servers underneath only what they cannot cope with: what strangers send them is no news.
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(least)
