"""Lengths of time as they are typed: 90s, 30m, 12h, 7d, 52w."""

import re
from datetime import timedelta

from bucketq.errors import ConfigurationError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration_of(text: str, flag: str) -> timedelta:
    """A length of time. Raises ConfigurationError, which names the flag.

    >>> duration_of("90m", "--older-than")
    datetime.timedelta(seconds=5400)
    """
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is not None and not int(found[1]):
        raise ConfigurationError(f"{flag} takes a time above 0, such as 90s or 30m, not {text!r}")
    if found is None:
        raise ConfigurationError(f"{flag} takes a number and a unit: 90s, 30m, 12h, 7d or 52w, not {text!r}")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
