"""New batches: what a caller says of the job that follows, and what is told of the batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bucketq.errors import ConfigurationError
from bucketq.new_job import JobOptions

# They are judged when a job is enqueued, and this one is when nobody is there to hear of it.
_NOT_OF_A_FOLLOWER = {"after", "if_dead", "key", "if_exists", "key_for"}


class Then(NamedTuple):
    """The job that follows a batch: `Then("report", {"album": 7}, options={"max_attempts": 1})`.

    Times in its options, such as `delay`, count from when the batch is enqueued.
    """

    entrypoint: str
    payload: Any = b""
    priority: int = 0
    options: JobOptions = JobOptions()

    @classmethod
    def of(cls, then: "Then | tuple[str, Any]") -> "Then":
        """What a caller gave, also as (entrypoint, payload). Raises ConfigurationError."""
        if not isinstance(then, tuple) or not 1 <= len(then) <= len(cls._fields):
            raise ConfigurationError(
                f"then is (entrypoint, payload), or Then(entrypoint, payload, …), not {then!r}"
            )
        then = cls(*then)
        if wrong := _NOT_OF_A_FOLLOWER & then.options.keys():
            raise ConfigurationError(f"the job that follows a batch takes no {', '.join(sorted(wrong))}")
        return then


class NewBatch(NamedTuple):
    """A batch that was enqueued. Its id is also that of the job that follows."""

    id: str
    job_ids: Sequence[str]
