"""New jobs: what a caller may ask of one, and whether that makes sense."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from bucketq.duration import Duration, seconds_of
from bucketq.errors import ConfigurationError
from bucketq.job import IfDead, Job, JobStatus

MAX_ATTEMPTS = 3
MAX_CRASHES = 3

# What every JSON reader can hold without rounding.
_INTEGER_MAX = 2**53 - 1
# Longer names would make every commit slow.
NAME_MAX = 250
# More ids than that are better a batch.
_AFTER_MAX = 1000

IfExists = Literal["return", "replace", "raise"]


class JobOptions(TypedDict, total=False):
    """What may be asked of a job, all of it by keyword.

    - `max_attempts`: so often it may fail (3); `max_crashes`: so often its worker may die (3)
    - `run_at`, or `delay`: not before that time, or so many seconds from now
    - `expires_at`, or `expires_in`: if it has not begun by then, it never does
    - `timeout`: an attempt may take so long
    - `key`: no other job with this key waits or runs; `if_exists` says what then ("return" the other
      one, "replace" it, "raise" KeyTakenError); `key_for`: also not for so long after it is finished
    - `tenant`: tenants take turns; `limit_key`: what limits apply to (see `Queue.limit`)
    - `after`: jobs that have to be finished first; `if_dead`: what becomes of this one if one of them
      does not succeed ("cancel", or "run" all the same)
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


def new_job(
    job_id: str, entrypoint: str, payload: bytes, priority: int, now: datetime, options: JobOptions
) -> Job:
    """A job as a caller wants it. Raises ConfigurationError."""
    max_attempts = options.get("max_attempts", MAX_ATTEMPTS)
    check_plain(entrypoint, priority, max_attempts)
    job = Job(
        id=job_id,
        entrypoint=entrypoint,
        payload=payload,
        priority=priority,
        created_at=now,
        max_attempts=max_attempts,
    )
    # Most jobs are plain ones.
    return _with_options(job, options) if options else job


def _with_options(job: Job, options: JobOptions) -> Job:
    unknown = options.keys() - JobOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(JobOptions.__annotations__)
        raise ConfigurationError(f"a job has no option {', '.join(sorted(unknown))}; there are {known}")
    now = job.created_at
    run_at = _moment(options.get("run_at"), options.get("delay"), now, "run_at", "delay")
    expires_at = _moment(
        options.get("expires_at"), options.get("expires_in"), now, "expires_at", "expires_in"
    )
    after = tuple(dict.fromkeys(one.id if isinstance(one, Job) else one for one in options.get("after", ())))
    changes: dict[str, Any] = {
        "run_at": run_at,
        "expires_at": expires_at,
        "max_crashes": options.get("max_crashes", MAX_CRASHES),
        "timeout_s": seconds_of(options.get("timeout", 0.0), "timeout"),
        "key": options.get("key"),
        "key_for_s": seconds_of(options.get("key_for", 0.0), "key_for"),
        "tenant": options.get("tenant"),
        "limit_key": options.get("limit_key"),
        "after": after,
        "if_dead": _if_dead(options.get("if_dead", "cancel")),
    }
    if run_at is not None and run_at > now:
        changes["status"] = JobStatus.SCHEDULED
    job = replace(job, **changes)
    check_new_job(job)
    if "if_exists" in options:
        check_if_exists(options["if_exists"])
        if job.key is None:
            raise ConfigurationError("if_exists says what to do if a key is taken; give the key too")
    return job


def check_plain(entrypoint: str, priority: int, max_attempts: int) -> None:
    """Raise ConfigurationError for what cannot be a job, whatever its options."""
    if not entrypoint or not is_text(entrypoint):
        raise ConfigurationError(f"an entrypoint is a non-empty string, not {entrypoint!r}")
    if type(max_attempts) is not int or not 1 <= max_attempts <= _INTEGER_MAX:
        raise ConfigurationError(f"max_attempts is a whole number from 1, not {max_attempts!r}")
    if type(priority) is not int or not -_INTEGER_MAX <= priority <= _INTEGER_MAX:
        raise ConfigurationError(f"priority is a whole number within ±{_INTEGER_MAX}, not {priority!r}")


def check_new_job(job: Job) -> None:
    """Raise ConfigurationError for what cannot be a job."""
    check_plain(job.entrypoint, job.priority, job.max_attempts)
    if type(job.max_crashes) is not int or not 1 <= job.max_crashes <= _INTEGER_MAX:
        raise ConfigurationError(f"max_crashes is a whole number from 1, not {job.max_crashes!r}")
    for name in ("key", "tenant", "limit_key"):
        value = getattr(job, name)
        if value is not None and not (is_text(value) and 1 <= len(value) <= NAME_MAX):
            raise ConfigurationError(f"{name} is a text of 1 to {NAME_MAX} characters, not {value!r}")
    if not all(is_text(one) and one for one in job.after) or len(job.after) > _AFTER_MAX:
        raise ConfigurationError(f"after takes up to {_AFTER_MAX} jobs, or their ids")
    if not (math.isfinite(job.timeout_s) and math.isfinite(job.key_for_s)):
        raise ConfigurationError("timeout and key_for are numbers of seconds")
    if job.key_for_s and job.key is None:
        raise ConfigurationError("key_for says for how long a key is kept; give the key too")


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
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _moment(
    at: datetime | None, within: Duration | None, now: datetime, at_name: str, within_name: str
) -> datetime | None:
    if at is not None and within is not None:
        raise ConfigurationError(f"give {at_name} or {within_name}, not both")
    if within is not None:
        return now + timedelta(seconds=seconds_of(within, within_name))
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise ConfigurationError(
            f"{at_name} is a datetime with its time zone, such as datetime.now(UTC), not {at!r}"
        )
    return at


def _if_dead(value: str) -> IfDead:
    try:
        return IfDead(value)
    except ValueError:
        raise ConfigurationError(f"if_dead is 'cancel' or 'run', not {value!r}") from None
