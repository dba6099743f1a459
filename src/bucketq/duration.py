"""Lengths of time, as callers give them: seconds, or a timedelta."""

from datetime import timedelta

from bucketq.errors import ConfigurationError

Duration = float | timedelta
# Some thousand years: more would not fit into a date.
_LONGEST_S = 1e11


def seconds_of(duration: Duration, name: str) -> float:
    """A length of time in seconds. Raises ConfigurationError, which calls it `name`.

    >>> seconds_of(timedelta(minutes=1), "delay")
    60.0
    """
    if isinstance(duration, timedelta):
        return seconds_of(duration.total_seconds(), name)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < _LONGEST_S:
        raise ConfigurationError(f"{name} is a number of seconds from 0, or a timedelta, not {duration!r}")
    return float(duration)
