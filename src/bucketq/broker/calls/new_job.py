"""What may be asked of a new job, in JSON: all that `bucketq.new_job.JobOptions` has.

A job is submitted by itself, in a transaction, as one of many, as the one that follows a batch, or
again and again by a schedule. Not every option makes sense in each.
"""

from typing import Annotated, Any, ClassVar, Literal, cast

from msgspec import UNSET, Meta, Raw, UnsetType

from bucketq.broker.calls.call import Asked
from bucketq.broker.calls.payload import content_of
from bucketq.broker.calls.shapes import (
    IF_BASE64,
    NOT_BOTH_TIMES,
    Moment,
    Name,
    Priority,
    Seconds,
    Whole,
)
from bucketq.job import IfDead
from bucketq.new_job import JobOptions
from bucketq.told import Encoding

# The entrypoint of a job that was submitted without a type.
DEFAULT_TYPE = "default"


class AnyJob(Asked):
    """What every kind of new job may have."""

    type: Name = DEFAULT_TYPE
    payload_encoding: Encoding = "json"
    priority: Priority = 0
    max_attempts: Whole | UnsetType = UNSET
    max_crashes: Whole | UnsetType = UNSET
    expires_in: Seconds | UnsetType = UNSET
    timeout: Seconds | UnsetType = UNSET
    tenant: Name | UnsetType = UNSET
    limit_key: Name | UnsetType = UNSET

    @property
    def options(self) -> JobOptions:
        """The options that were given."""
        given = {name: value for name in _OPTIONS if (value := getattr(self, name, UNSET)) is not UNSET}
        return cast(JobOptions, given)


class SingleJob(AnyJob):
    """A job with a payload of its own."""

    payload: Raw | UnsetType = UNSET

    @property
    def content(self) -> bytes:
        """The bytes of its payload. Raises PayloadError."""
        return content_of(self.payload, self.payload_encoding)


class NewJob(SingleJob):
    """A new job. With a `key` it may be sent again: it is not added twice."""

    rules: ClassVar[dict[str, Any]] = {
        "allOf": [*NOT_BOTH_TIMES, IF_BASE64],
        "dependentRequired": {"keyFor": ["key"], "ifExists": ["key"]},
    }

    delay: Seconds | UnsetType = UNSET
    run_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    key: Name | UnsetType = UNSET
    key_for: Seconds | UnsetType = UNSET
    if_exists: Literal["return", "replace", "raise"] | UnsetType = UNSET
    after: Annotated[tuple[Name, ...], Meta(max_length=1000)] | UnsetType = UNSET
    if_dead: IfDead | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


class Following(SingleJob):
    """The job that follows a batch. Its times count from when the batch is submitted."""

    rules: ClassVar[dict[str, Any]] = {"allOf": [*NOT_BOTH_TIMES, IF_BASE64]}

    delay: Seconds | UnsetType = UNSET
    run_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET


_OPTIONS = tuple(JobOptions.__annotations__)
