"""What is kept of an error: a short text, and where it happened."""

import traceback

from bucketq.errors import ConfigurationError

ERROR_MAX = 10_000
TRACE_MAX = 1000
_FRAMES = 8


class Elsewhere(Exception):  # noqa: N818 (no error of its own, but where one came from)
    """The cause of an exception that was raised in another process: its trace there."""


def error_text(error: str | BaseException | None) -> str | None:
    """What to keep of an error: its text, or an exception's type and text.

    >>> error_text(ValueError("no such host"))
    'ValueError: no such host'
    """
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {spelt(error)}"
    if error is None or isinstance(error, str):
        # A lone surrogate cannot be written as JSON, and a huge text would slow every commit down.
        if error and len(error) > ERROR_MAX:
            error = f"{error[:ERROR_MAX]} … (cut from {len(error)} characters)"
        return error and _writable(error)
    raise ConfigurationError(f"an error is a text or an exception, not {error!r}")


def spelt(error: BaseException) -> str:
    """The text of an exception; that of somebody else may raise another when it is asked for it."""
    try:
        return str(error)
    except Exception as another:
        return f"(its text raised {type(another).__name__})"


def trace_text(error: str | BaseException | None) -> str | None:
    """Where an exception came from, the last few calls; it is rewritten with every commit."""
    if not isinstance(error, BaseException):
        return None
    if isinstance(error.__cause__, Elsewhere):
        return str(error.__cause__)
    if error.__traceback__ is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    lines = [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames]
    return _writable("\n".join(lines)[-TRACE_MAX:])


def _writable(text: str) -> str:
    return text.encode(errors="replace").decode()
