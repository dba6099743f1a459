"""Logs of a process that serves: lines of text, or of JSON."""

import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from bucketq.token_bucket import TokenBucket
from bucketq.words import printable

_FIELDS = ("epoch", "job_id", "entrypoint", "attempt", "worker", "seconds", "peer", "trace_id", "span_id")
_OWN = "bucketq"
_LINES_PER_MINUTE = {"opentelemetry": 1, "uvicorn": 10, "asyncio": 10}


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
            "message": _plain(record.getMessage()),
            **({} if record.name == _OWN else {"logger": _plain(record.name)}),
            **{name: _plain(getattr(record, name)) for name in _FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            line["traceback"] = _plain(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class _TextLines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        line = super().formatMessage(record)
        # Our own lines say which job they are about; and what clients sent must not look like another line.
        if record.name == _OWN:
            return _one_line(line)
        fields = vars(record)
        if not {"entrypoint", "job_id"} <= fields.keys():
            return line
        return f"{line} [{_one_line(fields['entrypoint'])} {_one_line(fields['job_id'])}]"


def _plain(value: object) -> object:
    """A number, or a text that JSON can hold: handlers log whatever they like."""
    return value if isinstance(value, int | float) else str(value).encode(errors="replace").decode()


def _one_line(value: object) -> str:
    return printable(str(value)).replace("\n", "\\n")


class _Seldom(logging.Filter):
    """Lets only some lines of the libraries underneath through.

    A collector of traces that is away, or strangers who find a line that the servers write, could fill the
    log with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buckets = {name: TokenBucket(most / 60, most) for name, most in _LINES_PER_MINUTE.items()}

    def filter(self, record: logging.LogRecord) -> bool:
        bucket = self._buckets.get(record.name.partition(".")[0])
        return bucket is None or bucket.take(record.created)


def log_to_stderr(logs: Logs, *, with_handlers: bool = False) -> None:
    """Send what bucketq logs to stderr; and what the handlers of jobs log, unless they have their own way."""
    from bucketq.log_fields import LogFields

    output = logging.StreamHandler(sys.stderr)
    text = _TextLines("%(asctime)s %(levelname)-7s %(message)s")
    output.setFormatter(_JsonLines() if logs.log_format == "json" else text)
    output.addFilter(_Seldom())
    output.addFilter(LogFields())
    level, root = logs.log_level.upper(), logging.getLogger()
    # Of the servers underneath only what they cannot cope with: what strangers send them is no news.
    levels = {_OWN: level, "uvicorn": "ERROR", "asyncio": "ERROR", "opentelemetry": "WARNING"}
    # By this the spans leave: it has a line for each try.
    levels["urllib3"] = "WARNING"
    for name, least in levels.items():
        logging.getLogger(name).setLevel(least)
    if with_handlers and not root.handlers:
        root.addHandler(output)
        root.setLevel(level)
    else:
        for name in levels:
            logging.getLogger(name).addHandler(output)
