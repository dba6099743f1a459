"""Outcome: how an attempt at a job ended, as a value that can travel between processes."""

from typing import NamedTuple

from bucketq.app.call import Call


class Completed(NamedTuple):
    """The handler returned. `result` is JSON; `calls` are to be enqueued with the job's completion."""

    result: bytes = b""
    calls: tuple[Call, ...] = ()


class Failed(NamedTuple):
    """The handler raised, or took too long: to be tried again after a while, if attempts are left."""

    error: str
    trace: str | None = None
    retry_in_s: float = 0.0


class Rejected(NamedTuple):
    """No further attempt can help: the job is dead, whatever attempts are left."""

    error: str
    trace: str | None = None


class Interrupted(NamedTuple):
    """The attempt was stopped before its end, and not by the handler: it costs nothing."""


class Crashed(NamedTuple):
    """Its process, or machine, died with the attempt: it counts like that of a worker that fell silent."""


Outcome = Completed | Failed | Rejected | Interrupted | Crashed
