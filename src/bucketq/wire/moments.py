"""Moments: times on the wire, in microseconds since 1970."""

from datetime import UTC, datetime, timedelta

from bucketq.errors import ConfigurationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime | None) -> int:
    """A time as the wire has it."""
    return 0 if moment is None else (moment - EPOCH) // MICROSECOND


def moment(microseconds: int) -> datetime | None:
    """A time of the wire. Raises ConfigurationError."""
    try:
        return EPOCH + timedelta(microseconds=microseconds) if microseconds else None
    except OverflowError as error:
        raise ConfigurationError(f"{microseconds} µs after 1970 is no time: {error}") from error
