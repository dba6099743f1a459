"""New jobs: what a caller may ask of one, and whether that makes sense."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from bucketq.duration import Duration, in_utc, seconds_of
from bucketq.errors import ConfigurationError
from bucketq.job import IfDead, Job, JobStatus
from bucketq.trace_context import TraceContext

MAX_ATTEMPTS = 3
MAX_CRASHES = 3

# What every JSON reader can hold without rounding.
INTEGER_MAX = 2**53 - 1
# Longer names would make every commit slow.
NAME_MAX = 250
# More ids than that are better a batch.
_AFTER_MAX = 1000
# Times within these years can be counted with, whatever is added.
_FIRST_YEAR, _LAST_YEAR = 1970, 9000

IfExists = Literal["return", "replace", "raise"]


class JobOptions(TypedDict, total=False):
    """What may be asked of a job, all of it by keyword.

    - `max_attempts`: how often it may fail (3)
    - `max_crashes`: how often its worker may die (as often as it may fail, 3 at most)
    - `run_at`, or `delay`: not before that time, or so many seconds from now
    - `expires_at`, or `expires_in`: if it has not begun by then, it never does
    - `timeout`: an attempt may take so long
    - `key`: no other job with this key waits or runs; `if_exists` says what then ("return" the other
      one, "replace" it, "raise" KeyTakenError); `key_for`: also not for so long after it is finished
    - `tenant`: tenants take turns; `limit_key`: what limits apply to (see `Queue.limit`)
    - `after`: jobs that have to be finished first; `if_dead`: what becomes of this one if one of them
      does not succeed ("cancel", or "run" all the same)
    - `traceparent`, `tracestate`: the trace that it belongs to, where bucketq.tracing is not to find out
    """

    max_attempts: int
    max_crashes: int
    run_at: datetime
    delay: Duration
    expires_at: datetime
    expires_in: Duration
    timeout: Duration
    key: str
    if_exists: IfExists
    key_for: Duration
    tenant: str
    limit_key: str
    after: Iterable[Job | str]
    if_dead: Literal["cancel", "run"]
    traceparent: str
    tracestate: str


def crashes_for(max_attempts: int) -> int:
    """The `max_crashes` of a job for which none was given: one attempt means one delivery.

    >>> crashes_for(1), crashes_for(5)
    (1, 3)
    """
    return min(MAX_CRASHES, max_attempts)


def new_job(
    job_id: str, entrypoint: str, payload: bytes, priority: int, now: datetime, options: JobOptions
) -> Job:
    """A job as a caller wants it. Raises ConfigurationError."""
    max_attempts = options.get("max_attempts", MAX_ATTEMPTS)
    check_plain(entrypoint, priority, max_attempts)
    if not options:
        # Most jobs are plain ones.
        return Job(
            id=job_id,
            entrypoint=entrypoint,
            payload=payload,
            priority=priority,
            created_at=now,
            max_attempts=max_attempts,
        )
    unset = {"max_attempts": max_attempts, "max_crashes": crashes_for(max_attempts)}
    changes = unset | _changes(options, now)
    if_exists = changes.pop("if_exists", None)
    if "traceparent" in changes or "tracestate" in changes:
        trace = TraceContext.of(changes.get("traceparent"), changes.get("tracestate"))
        changes |= trace._asdict()
    job = Job(id=job_id, entrypoint=entrypoint, payload=payload, priority=priority, created_at=now, **changes)
    if job.run_at is not None and job.run_at > now:
        job = replace(job, status=JobStatus.SCHEDULED)
    _check_options(job)
    if if_exists is not None and job.key is None:
        raise ConfigurationError("if_exists says what to do if a key is taken; give the key too")
    return job


def with_trace(job: Job, trace: TraceContext) -> Job:
    """The job, of a trace."""
    return replace(job, traceparent=trace.traceparent, tracestate=trace.tracestate)


def _changes(options: JobOptions, now: datetime) -> dict[str, Any]:
    """The fields of a job that options set, and `if_exists`."""
    changes: dict[str, Any] = {}
    for name, value in options.items():
        change = _CHANGES.get(name)
        if change is None:
            raise ConfigurationError(f"a job has no option {name}; there are {', '.join(_CHANGES)}")
        field, convert = change
        if field in changes:
            others = [other for other in options if other != name and _CHANGES[other][0] == field]
            raise ConfigurationError(f"give {name} or {others[0]}, not both")
        changes[field] = value if convert is _as_it_is else convert(value, name, now)
    return changes


def _as_it_is(value: Any, name: str, now: datetime) -> Any:
    return value


def _moment(value: Any, name: str, now: datetime) -> datetime:
    return in_utc(value, name)


def _from_now(value: Any, name: str, now: datetime) -> datetime:
    return now + timedelta(seconds=seconds_of(value, name))


def _seconds(value: Any, name: str, now: datetime) -> float:
    return seconds_of(value, name)


def _ids(value: Any, name: str, now: datetime) -> tuple[str, ...]:
    if isinstance(value, str | Job) or not isinstance(value, Iterable):
        raise ConfigurationError(f"after takes a list of jobs or ids, such as after=[job], not {value!r}")
    return tuple(dict.fromkeys(one.id if isinstance(one, Job) else one for one in value))


def _if_dead(value: Any, name: str, now: datetime) -> IfDead:
    try:
        return IfDead(value)
    except ValueError:
        raise ConfigurationError(f"if_dead is 'cancel' or 'run', not {value!r}") from None


def _if_exists(value: Any, name: str, now: datetime) -> IfExists:
    return check_if_exists(value)


# For each option the field that it sets, and how.
_CHANGES: dict[str, tuple[str, Callable[[Any, str, datetime], Any]]] = {
    "max_attempts": ("max_attempts", _as_it_is),
    "max_crashes": ("max_crashes", _as_it_is),
    "run_at": ("run_at", _moment),
    "delay": ("run_at", _from_now),
    "expires_at": ("expires_at", _moment),
    "expires_in": ("expires_at", _from_now),
    "timeout": ("timeout_s", _seconds),
    "key": ("key", _as_it_is),
    "if_exists": ("if_exists", _if_exists),
    "key_for": ("key_for_s", _seconds),
    "tenant": ("tenant", _as_it_is),
    "limit_key": ("limit_key", _as_it_is),
    "after": ("after", _ids),
    "if_dead": ("if_dead", _if_dead),
    "traceparent": ("traceparent", _as_it_is),
    "tracestate": ("tracestate", _as_it_is),
}


def check_plain(entrypoint: str, priority: int, max_attempts: int) -> None:
    """Raise ConfigurationError for what cannot be a job, whatever its options."""
    check_name("an entrypoint", entrypoint)
    if type(max_attempts) is not int or not 1 <= max_attempts <= INTEGER_MAX:
        raise ConfigurationError(f"max_attempts is a whole number from 1, not {max_attempts!r}")
    if type(priority) is not int or not -INTEGER_MAX <= priority <= INTEGER_MAX:
        raise ConfigurationError(f"priority is a whole number within ±{INTEGER_MAX}, not {priority!r}")


def check_new_job(job: Job) -> None:
    """Raise ConfigurationError for what cannot be a job."""
    check_plain(job.entrypoint, job.priority, job.max_attempts)
    if not _FIRST_YEAR <= job.created_at.year < _LAST_YEAR:
        raise ConfigurationError(f"created_at is from {_FIRST_YEAR} to {_LAST_YEAR}, not {job.created_at}")
    for name, value in (("batch", job.batch), ("redrive_of", job.redrive_of)):
        if value is not None:
            check_name(name, value)
    _check_options(job)


def _check_options(job: Job) -> None:
    if type(job.max_crashes) is not int or not 1 <= job.max_crashes <= INTEGER_MAX:
        raise ConfigurationError(f"max_crashes is a whole number from 1, not {job.max_crashes!r}")
    if job.key is not None:
        check_name("key", job.key)
    if job.tenant is not None:
        check_name("tenant", job.tenant)
    if job.limit_key is not None:
        check_name("limit_key", job.limit_key)
    if len(job.after) > _AFTER_MAX:
        raise ConfigurationError(f"after takes up to {_AFTER_MAX} jobs, or their ids, not {len(job.after)}")
    for one in job.after:
        check_name("the id of a job in after", one)
    for name, seconds in (("timeout", job.timeout_s), ("key_for", job.key_for_s)):
        if seconds:
            seconds_of(seconds, name)
    if job.key_for_s and job.key is None:
        raise ConfigurationError("key_for says for how long a key is kept; give the key too")


def check_name(what: str, value: object) -> None:
    """Raise ConfigurationError for what cannot be a name, such as a key, a tenant or an entrypoint."""
    if isinstance(value, str) and len(value) > NAME_MAX:
        raise ConfigurationError(
            f"{what} is a text of 1 to {NAME_MAX} characters, not {len(value)}: {value[:40]!r}…"
        )
    if not value or not is_text(value):
        raise ConfigurationError(f"{what} is a text of 1 to {NAME_MAX} characters, not {value!r}")


def check_if_exists(value: str) -> IfExists:
    """What to do if a key is taken. Raises ConfigurationError."""
    match value:
        case "return" | "replace" | "raise":
            return value
    raise ConfigurationError(f"if_exists is 'return', 'replace' or 'raise', not {value!r}")


def is_text(value: object) -> bool:
    """Whether it is a string that can be written as JSON."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
