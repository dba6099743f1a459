"""Times as callers give them: lengths, as seconds or a timedelta, and moments of any time zone."""

from datetime import UTC, datetime, timedelta

from bucketq.errors import ConfigurationError

Duration = float | timedelta
# Some thousand years: more would not fit into a date.
LONGEST_S = 1e11
_LAST = datetime.max.replace(tzinfo=UTC)


def seconds_of(duration: Duration, name: str) -> float:
    """A length of time in seconds. Raises ConfigurationError, which calls it `name`.

    >>> seconds_of(timedelta(minutes=1), "delay")
    60.0
    """
    if isinstance(duration, timedelta):
        return seconds_of(duration.total_seconds(), name)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < LONGEST_S:
        raise ConfigurationError(f"{name} is a number of seconds from 0, or a timedelta, not {duration!r}")
    return float(duration)


def later(moment: datetime, seconds: float) -> datetime:
    """The moment so many seconds later, or the last one that a date can hold.

    >>> later(datetime(2026, 1, 1, tzinfo=UTC), 1e308).year
    9999
    """
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST


def in_utc(moment: object, name: str) -> datetime:
    """The same moment in UTC. Raises ConfigurationError, which calls it `name`.

    Files and messages spell the offset of a zone in minutes, so a moment keeps no zone of its own.

    >>> from datetime import timezone
    >>> in_utc(datetime(2026, 1, 1, 5, 0, 17, tzinfo=timezone(timedelta(hours=5, seconds=17))), "run_at")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ConfigurationError(
            f"{name} is a datetime with its time zone, such as datetime.now(UTC), not {moment!r}"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ConfigurationError(
            f"{name} is beyond the years that a time can have, 1 to 9999 in UTC: {moment}"
        ) from None
